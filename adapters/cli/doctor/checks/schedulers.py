"""The schedulers: whether each asks Dragoman, and whether it reaches it."""

from collections.abc import Iterator
from urllib.parse import urlsplit

from adapters.cli.configure.command import configure, is_alone, own_url
from adapters.cli.configure.options import ConfigureOptions
from adapters.cli.doctor.checks.reachability import unreachable
from adapters.cli.doctor.finding import CheckResult, FindingLevel, error, ok, warning
from adapters.cli.doctor.observed import Observed
from adapters.cli.doctor.scheduler_pods import SchedulerPod, scheduler_pods
from adapters.cli.input.source import InputError, Source

CHECK = "schedulers"

_NOT_SURE = FindingLevel.WARNING
"""The level of a finding about an address that may be reached all the same."""


def check(seen: Observed) -> Iterator[CheckResult]:
    """A finding or more for each scheduler; replicas of one with the same configuration are one."""
    found = list(scheduler_pods(seen.pods))
    if not found:
        if "pods" not in seen.unreadable:
            yield warning(
                CHECK,
                "no pod runs kube-scheduler, koord-scheduler or vc-scheduler",
                "where a scheduler runs outside of the cluster, check its file with"
                " dragoman configure --diff",
            )
        return
    findings = [each for scheduler in _distinct(found) for each in _scheduler(seen, scheduler)]
    yield from findings
    if not any(each.level is FindingLevel.OK or "not known" in each.text for each in findings):
        yield error(
            CHECK,
            "no scheduler asks Dragoman as it must",
            "dragoman configure kube-scheduler, koord-scheduler or vc-scheduler",
        )


def _distinct(found: list[SchedulerPod]) -> list[SchedulerPod]:
    known: dict[object, SchedulerPod] = {}
    for each in found:
        key = (each.scheduler, each.pod.metadata.namespace, each.source or each.pod.name)
        known.setdefault(key, each)
    return list(known.values())


def _scheduler(seen: Observed, found: SchedulerPod) -> Iterator[CheckResult]:
    program, who = found.scheduler.value, f"{found.scheduler.value} ({found.pod.name})"
    if found.source is None:
        if not found.file:
            yield warning(
                CHECK,
                f"{who} has no configuration, so it does not ask Dragoman",
                f"dragoman configure {program} --new, if it is to place pods with a share",
            )
            return
        node = found.pod.spec.node_name or "its node"
        yield warning(
            CHECK,
            f"{who} has the configuration {found.file}, which comes from no ConfigMap; whether it"
            " asks Dragoman is not known",
            f"on {node}: dragoman configure {program} --diff -f FILE",
        )
        return
    namespace, (name, key) = found.pod.metadata.namespace, found.source
    config = seen.config_maps.get((namespace, name))
    text = None if config is None else (config.data or {}).get(key)
    place = f"ConfigMap {namespace}/{name}, key {key}"
    if text is None:
        yield warning(
            CHECK,
            f"{who}: {place} cannot be read; whether it asks Dragoman is not known",
            f"kubectl -n {namespace} get configmap {name}",
        )
        return
    try:
        yield from _configuration(seen, found, Source(place, text, named=True))
    except InputError as problem:
        remedy = f"correct it; dragoman configure {program} --new prints a complete one"
        yield error(CHECK, f"{who}: {problem}", remedy)


def _configuration(seen: Observed, found: SchedulerPod, source: Source) -> Iterator[CheckResult]:
    program, who = found.scheduler.value, f"{found.scheduler.value} ({found.pod.name})"
    namespace, name = found.pod.metadata.namespace, found.source.config_map if found.source else ""
    command = f"kubectl -n {namespace} get configmap {name} -o yaml | dragoman configure {program}"
    url = own_url(found.scheduler, source)
    if url is None and is_alone(found.scheduler, source):
        yield ok(CHECK, f"{who} decides by its own plugin, and the webhook for Bindings commits")
        return
    if url is None:
        yield warning(
            CHECK,
            f"{who} does not ask Dragoman ({source.name})",
            f"if it is to place pods with a share: {command}",
        )
        return
    outcome = configure(found.scheduler, source, ConfigureOptions())
    problem = unreachable(seen, found.pod, url)
    if outcome.before != outcome.after:
        yield error(
            CHECK,
            f"{who} asks Dragoman, but {source.name} lacks what that needs",
            f"{command} --diff",
        )
    if problem is not None:
        yield problem
    if outcome.before == outcome.after and (problem is None or problem.level is _NOT_SURE):
        yield ok(CHECK, f"{who} asks Dragoman at {urlsplit(url).netloc}")
