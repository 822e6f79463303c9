"""The admission webhooks: do they exist, cover the namespaces, and get called?

And their certificate, and the authorities that the API server believes.
"""

import binascii
import re
from base64 import b64decode
from collections.abc import Iterator
from datetime import UTC, datetime
from http import HTTPStatus

import msgspec

from adapters.cli.configure.options import NAMES
from adapters.cli.doctor.finding import CheckResult, error, ok, warning
from adapters.cli.doctor.objects import ProgramPod, Webhook, labels, selects
from adapters.cli.doctor.observed import HttpAnswer, Installation, Observed
from adapters.cli.fleet.fleet import configured_dialects
from adapters.cli.input.source import InputError, InputLocation
from adapters.dialects import registry
from adapters.dialects.device_plugins import plugin_share
from adapters.dialects.dialect import Defaults
from adapters.dialects.unread_keys import counts
from adapters.service.certificates.authority import CertificateError, facts, signed_by_one_of
from adapters.service.certificates.rotation import CERTIFICATE

_NAMES = frozenset(name for name in NAMES if plugin_share(name) is None)
"""Resources by which pods request a share; pods of only a device plugin pass the webhook."""
PODS, BINDINGS = "pods.dragoman.dev", "bindings.dragoman.dev"

# As charts/dragoman/templates/_helpers.tpl, dragoman.prefixes, and webhooks.yaml write them.
_PREFIXES = re.compile(r"\[([^\[\]]*)\]\.exists\(p, k\.startsWith\(p\)\)")
_QUOTED = re.compile(r"'([^']*)'")


def check_webhooks(seen: Observed) -> Iterator[CheckResult]:
    """Both webhooks of each installation, and the answer to a pod that was tried."""
    if "mutatingwebhookconfigurations" in seen.unreadable:
        return
    for release in seen.releases():
        own = webhooks_of(seen, release)
        for name in (PODS, BINDINGS):
            found = own.get(name)
            if found is None:
                yield error(
                    "webhooks",
                    f"{release} has no webhook {name}",
                    "helm upgrade with webhooks.enabled=true; without it no request is validated,"
                    " and no other scheduler's choice is checked",
                )
            else:
                yield from _coverage(seen, found)
        if PODS not in own:
            continue
        status, text = seen.admitted.get(str(release), HttpAnswer(0, "not asked"))
        if status == HTTPStatus.OK:
            pod = msgspec.json.decode(text, type=ProgramPod)
            variables = [(e.name, e.value) for one in pod.spec.containers for e in one.env or ()]
            if ("NVIDIA_VISIBLE_DEVICES", "void") in variables:
                asks = f"the API server calls {release} for a pod with a share (dry run)"
                yield ok("webhooks", asks)
            else:
                yield error(
                    "webhooks",
                    "the API server admits a pod with a share in the namespace default without"
                    " Dragoman (dry run)",
                    "see the webhook's namespaceSelector, objectSelector and matchConditions",
                )
        elif "failed calling webhook" in text or PODS in text:
            yield error(
                "webhooks",
                f"the API server cannot ask {release}: {text}",
                "x509: see certificates below. Timeout: let the API server reach port https of the"
                " pods. No endpoints: see the service above",
            )
        else:
            yield warning(
                "webhooks",
                f"whether the API server calls {release} is not known: {text}",
                "run doctor as a user that may create pods in the namespace default (dry run)",
            )


def webhooks_of(seen: Observed, release: Installation) -> dict[str, Webhook]:
    """Return the webhooks that call a release, by its Service or a URL in its configuration."""
    found = {}
    for configuration in seen.webhooks:
        for each in configuration.webhooks or ():
            service = each.client_config.service
            by_name = service is None and configuration.metadata.name == release.name
            own = (release.namespace, release.name)
            if by_name or (service is not None and (service.namespace, service.name) == own):
                found[each.name] = each
    return found


def _coverage(seen: Observed, found: Webhook) -> Iterator[CheckResult]:
    covered = {
        each.metadata.name
        for each in seen.namespaces
        if selects(found.namespace_selector, labels(each))
    }
    with_shares = {
        pod.metadata.namespace
        for pod in seen.pods
        if not pod.status.phase or pod.status.phase in {"Pending", "Running"}
        if not _NAMES.isdisjoint(pod.resources())
    }
    missing = sorted(with_shares - covered)
    if found.name == PODS and found.failure_policy != "Fail":
        yield warning(
            "webhooks",
            f"{found.name} has failurePolicy {found.failure_policy}: while the service does not"
            " answer, pods with a share pass unchecked",
            "webhooks.failurePolicy=Fail, unless that is your choice",
        )
    if found.name == BINDINGS and found.failure_policy == "Fail":
        yield warning(
            "webhooks",
            f"{found.name} has failurePolicy Fail: while the service does not answer, no pod is"
            " bound in the namespaces that it covers",
            "webhooks.bindings.failurePolicy=Ignore, unless that is your choice",
        )
    if missing and found.name == PODS and "namespaces" not in seen.unreadable:
        yield warning(
            "webhooks",
            f"{found.name} does not cover namespaces whose pods request a share:"
            f" {', '.join(missing)}",
            "webhooks.namespaceSelector and webhooks.excludedNamespaces choose the namespaces",
        )
    yield ok("webhooks", f"{found.name} covers {len(covered)} of {len(seen.namespaces)} namespaces")


def check_resources(seen: Observed) -> Iterator[CheckResult]:
    """Find resources that a dialect counts and by which no pod reaches the webhook for pods.

    The chart's ``webhooks.resourcePrefixes`` name the resources of all dialects by their usual
    names. A setting of an ecosystem can rename its own, and pods that name only these are then
    created without Dragoman: nothing is validated, and nothing keeps their containers from every
    card.
    """
    named = {name for pod in seen.pods for name in pod.resources()}
    named |= {name for node in seen.nodes for name in node.status.allocatable or () if "/" in name}
    read = {name for name, _ in registry.documents()}
    maps = {
        f"{each.metadata.namespace}/{each.metadata.name}": (each, InputLocation("the cluster", 0))
        for each in seen.settings
        if each.metadata.name in read
    }
    try:
        dialects = configured_dialects(maps, Defaults())
    except InputError as error:
        yield warning(
            "webhooks", str(error), "correct the ConfigMap; the service keeps its last settings"
        )
        return
    shares = (name for name in named if plugin_share(name) is None)
    counted = sorted(name for name in shares if counts(name, dialects))
    for release in seen.releases():
        found = webhooks_of(seen, release).get(PODS)
        conditions = () if found is None else found.match_conditions or ()
        # none where it has other conditions, or none
        prefixes = tuple(
            prefix
            for condition in conditions
            for written in _PREFIXES.findall(condition.expression)
            for prefix in _QUOTED.findall(written)
        )
        for name in counted if prefixes else ():
            if not name.startswith(prefixes):
                yield warning(
                    "webhooks",
                    f"pods that request {name} pass the webhook {PODS} of {release} unchecked",
                    f"add {name} to webhooks.resourcePrefixes",
                )


DAY = 86_400
SOON = 7 * DAY
"""Seconds before its end from which on a certificate should have been renewed."""


def check_certificates(seen: Observed) -> Iterator[CheckResult]:
    """Return the certificate of each installation with webhooks."""
    for release in seen.releases():
        own = webhooks_of(seen, release)
        bundles = {name: found.client_config.ca_bundle for name, found in own.items()}
        if not bundles:
            continue
        if not release.secret:
            remedy = "run doctor as a user that may read the service's ConfigMap"
            yield warning("certificates", f"the Secret of {release} is not known", remedy)
            continue
        try:
            yield from _release(seen, release, bundles)
        except CertificateError as problem:
            yield error(
                "certificates",
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
            "certificates",
            f"the {place} cannot be read: {seen.unreadable.get('secrets', 'there is none')}",
            "run doctor as a user that may get it",
        )
        return
    text = data.get(CERTIFICATE, "")
    if not text:
        yield error(
            "certificates",
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
        yield error(
            "certificates", f"the certificate in the {place} is for {names}, not {host}", renewal
        )
    elif found.ends <= seen.now:
        yield error("certificates", f"the certificate in the {place} ended on {day}", renewal)
    elif found.ends - seen.now < SOON:
        yield warning("certificates", f"the certificate in the {place} ends on {day}", renewal)
    else:
        yield ok("certificates", f"the certificate in the {place} is valid until {day}")
    for name, encoded in sorted(bundles.items()):
        try:
            bundle = b64decode(encoded, validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            bundle = ""
        if not bundle:
            yield error(
                "certificates",
                f"{name} has no caBundle, so the API server believes no certificate",
                "the service or cert-manager's cainjector writes it; see their logs",
            )
        elif signed_by_one_of(text, bundle):
            believed = f"the caBundle of {name} has the authority of that certificate"
            yield ok("certificates", believed)
        else:
            yield error(
                "certificates",
                f"the caBundle of {name} has no authority that signed the certificate in the"
                f" {place}",
                "restart the service, which writes it; with cert-manager, see its cainjector's log",
            )
