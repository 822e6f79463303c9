"""The certificate of the webhooks' port, and the authorities that the API server believes."""

import binascii
from base64 import b64decode
from collections.abc import Iterator
from datetime import UTC, datetime

from adapters.cli.doctor.checks.webhooks import webhooks_of
from adapters.cli.doctor.finding import CheckResult, error, ok, warning
from adapters.cli.doctor.observed import Installation, Observed
from adapters.service.certificates.authority import CertificateError, facts, signed_by_one_of
from adapters.service.certificates.rotation import CERTIFICATE

CHECK = "certificates"
DAY = 86_400
SOON = 7 * DAY
"""Seconds before its end from which on a certificate should have been renewed."""


def check(seen: Observed) -> Iterator[CheckResult]:
    """The certificate of each installation with webhooks."""
    for release in seen.releases():
        own = webhooks_of(seen, release)
        bundles = {name: found.client_config.ca_bundle for name, found in own.items()}
        if not bundles:
            continue
        if not release.secret:
            remedy = "run doctor as a user that may read the service's ConfigMap"
            yield warning(CHECK, f"the Secret of {release} is not known", remedy)
            continue
        try:
            yield from _release(seen, release, bundles)
        except CertificateError as problem:
            yield error(
                CHECK,
                f"a certificate of {release} cannot be read: {problem}",
                f"delete the keys of the Secret {release.namespace}/{release.secret}; the service"
                " makes new ones, or cert-manager does",
            )


def _release(
    seen: Observed, release: Installation, bundles: dict[str, str]
) -> Iterator[CheckResult]:
    place = f"Secret {release.namespace}/{release.secret}"
    data = seen.secrets.get((release.namespace, release.secret))
    if data is None:
        yield warning(
            CHECK,
            f"the {place} cannot be read: {seen.unreadable.get('secrets', 'there is none')}",
            "run doctor as a user that may get it",
        )
        return
    text = data.get(CERTIFICATE, "")
    if not text:
        yield error(
            CHECK,
            f"the {place} has no {CERTIFICATE} yet",
            "the service writes it at its start; see its log",
        )
        return
    found = facts(text)
    day = datetime.fromtimestamp(found.ends, UTC).date()
    host = f"{release.name}.{release.namespace}.svc"
    renewal = "see the service's log for certificate.failed, or cert-manager's Certificate"
    if host not in found.names:
        names = ", ".join(found.names) or "none"
        yield error(CHECK, f"the certificate in the {place} is for {names}, not {host}", renewal)
    elif found.ends <= seen.now:
        yield error(CHECK, f"the certificate in the {place} ended on {day}", renewal)
    elif found.ends - seen.now < SOON:
        yield warning(CHECK, f"the certificate in the {place} ends on {day}", renewal)
    else:
        yield ok(CHECK, f"the certificate in the {place} is valid until {day}")
    for name, encoded in sorted(bundles.items()):
        yield _bundle(name, encoded, place, text)


def _bundle(name: str, encoded: str, place: str, text: str) -> CheckResult:
    try:
        bundle = b64decode(encoded, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        bundle = ""
    if not bundle:
        return error(
            CHECK,
            f"{name} has no caBundle, so the API server believes no certificate",
            "the service or cert-manager's cainjector writes it; see their logs",
        )
    if signed_by_one_of(text, bundle):
        return ok(CHECK, f"the caBundle of {name} has the authority of that certificate")
    return error(
        CHECK,
        f"the caBundle of {name} has no authority that signed the certificate in the {place}",
        "restart the service, which writes it; with cert-manager, see its cainjector's log",
    )
