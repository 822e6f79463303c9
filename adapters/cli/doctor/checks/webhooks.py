"""The admission webhooks: do they exist, cover the namespaces, and get called?"""

from collections.abc import Iterator
from http import HTTPStatus

import msgspec

from adapters.cli.configure.options import NAMES
from adapters.cli.doctor.finding import CheckResult, error, ok, warning
from adapters.cli.doctor.objects import Webhook, WebhookConfiguration, labels
from adapters.cli.doctor.observed import HttpAnswer, Installation, Observed
from adapters.cli.doctor.programs import ProgramPod
from adapters.dialects.device_plugins import plugin_share
from adapters.wire.budget import Selector, matches

CHECK = "webhooks"

_NAMES = frozenset(name for name in NAMES if plugin_share(name) is None)
"""Resources by which pods request a share; pods of only a device plugin pass the webhook."""
PODS, BINDINGS = "pods.dragoman.dev", "bindings.dragoman.dev"
_VARIABLE, _VOID = "NVIDIA_VISIBLE_DEVICES", "void"


def check(seen: Observed) -> Iterator[CheckResult]:
    """Both webhooks of each installation, and the answer to a pod that was tried."""
    if "mutatingwebhookconfigurations" in seen.unreadable:
        return
    for release in seen.releases():
        own = webhooks_of(seen, release)
        for name in (PODS, BINDINGS):
            found = own.get(name)
            if found is None:
                yield error(
                    CHECK,
                    f"{release} has no webhook {name}",
                    "helm upgrade with webhooks.enabled=true; without it no request is validated,"
                    " and no other scheduler's choice is checked",
                )
            else:
                yield from _webhook(seen, found)
        if PODS in own:
            yield from _tried(seen, release)


def webhooks_of(seen: Observed, release: Installation) -> dict[str, Webhook]:
    """The webhooks that call a release, by name: its Service, or a URL in its configuration."""
    return {
        each.name: each
        for configuration in seen.webhooks
        for each in configuration.webhooks or ()
        if _calls(configuration, each, release)
    }


def _calls(configuration: WebhookConfiguration, found: Webhook, release: Installation) -> bool:
    service = found.client_config.service
    if service is None:
        return configuration.metadata.name == release.name
    return (service.namespace, service.name) == (release.namespace, release.name)


def _webhook(seen: Observed, found: Webhook) -> Iterator[CheckResult]:
    covered = {each.metadata.name for each in seen.namespaces if _selects(found, labels(each))}
    missing = sorted(_with_shares(seen) - covered)
    if found.name == PODS and found.failure_policy != "Fail":
        yield warning(
            CHECK,
            f"{found.name} has failurePolicy {found.failure_policy}: while the service does not"
            " answer, pods with a share pass unchecked",
            "webhooks.failurePolicy=Fail, unless that is your choice",
        )
    if found.name == BINDINGS and found.failure_policy == "Fail":
        yield warning(
            CHECK,
            f"{found.name} has failurePolicy Fail: while the service does not answer, no pod is"
            " bound in the namespaces that it covers",
            "webhooks.bindings.failurePolicy=Ignore, unless that is your choice",
        )
    if missing and found.name == PODS and "namespaces" not in seen.unreadable:
        yield warning(
            CHECK,
            f"{found.name} does not cover namespaces whose pods request a share:"
            f" {', '.join(missing)}",
            "webhooks.namespaceSelector and webhooks.excludedNamespaces choose the namespaces",
        )
    yield ok(CHECK, f"{found.name} covers {len(covered)} of {len(seen.namespaces)} namespaces")


def _selects(found: Webhook, own: dict[str, str]) -> bool:
    selector = found.namespace_selector or Selector()
    everything = not (selector.match_labels or selector.match_expressions)
    return everything or matches(selector, own)


def _with_shares(seen: Observed) -> set[str]:
    return {
        pod.metadata.namespace
        for pod in seen.pods
        if not pod.status.phase or pod.status.phase in {"Pending", "Running"}
        if not _NAMES.isdisjoint(pod.resources())
    }


def _is_void(text: str) -> bool:
    """Whether the pod that the API server would create got what our webhook writes."""
    pod = msgspec.json.decode(text, type=ProgramPod)
    variables = (each for one in pod.spec.containers for each in one.env or ())
    return any((each.name, each.value) == (_VARIABLE, _VOID) for each in variables)


def _tried(seen: Observed, release: Installation) -> Iterator[CheckResult]:
    status, text = seen.admitted.get(str(release), HttpAnswer(0, "not asked"))
    if status == HTTPStatus.OK and _is_void(text):
        yield ok(CHECK, f"the API server calls {release} for a pod with a share (dry run)")
    elif status == HTTPStatus.OK:
        yield error(
            CHECK,
            "the API server admits a pod with a share in the namespace default without Dragoman"
            " (dry run)",
            "see the webhook's namespaceSelector, objectSelector and matchConditions",
        )
    elif "failed calling webhook" in text or PODS in text:
        yield error(
            CHECK,
            f"the API server cannot ask {release}: {text}",
            "x509: see certificates below. Timeout: let the API server reach port https of the"
            " pods. No endpoints: see the service above",
        )
    else:
        yield warning(
            CHECK,
            f"whether the API server calls {release} is not known: {text}",
            "run doctor as a user that may create pods in the namespace default (dry run)",
        )
