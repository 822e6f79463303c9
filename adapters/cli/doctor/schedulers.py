"""The schedulers: whether each asks Dragoman, and whether it reaches it."""

from collections.abc import Iterable, Iterator, Mapping
from ipaddress import ip_address, ip_network
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from adapters.cli.configure.command import configure, is_alone, own_url
from adapters.cli.configure.options import SHARES, ConfigureOptions, Scheduler
from adapters.cli.doctor import objects
from adapters.cli.doctor.finding import CheckResult, FindingLevel, error, ok, warning
from adapters.cli.doctor.objects import labels
from adapters.cli.doctor.observed import Observed, SchedulerPod, scheduler_pods
from adapters.cli.input.source import InputError, Source

_SHARES = frozenset(each.name for each in SHARES)


def check_schedulers(seen: Observed) -> Iterator[CheckResult]:
    """Return findings for each scheduler; replicas with the same configuration are one."""
    found = list(scheduler_pods(seen.pods))
    if not found:
        if "pods" not in seen.unreadable:
            yield warning(
                "schedulers",
                "no pod runs kube-scheduler, koord-scheduler or vc-scheduler",
                "where a scheduler runs outside of the cluster, check its file with"
                " dragoman configure --diff",
            )
        return
    distinct: dict[object, SchedulerPod] = {}
    for one in found:
        key = (one.scheduler, one.pod.metadata.namespace, one.source or one.pod.name)
        distinct.setdefault(key, one)
    by_scheduler = [(one.scheduler, [*_scheduler(seen, one)]) for one in distinct.values()]
    findings = [each for _, some in by_scheduler for each in some]
    yield from findings
    # vc-scheduler has its own action for that, and the service evicts no pod for it.
    rest = [each for one, some in by_scheduler if one is not Scheduler.VOLCANO for each in some]
    yield from _priorities(seen, rest)
    if not any(each.level is FindingLevel.OK or "not known" in each.text for each in findings):
        yield warning(
            "schedulers",
            "no scheduler asks Dragoman as it must: nodes are chosen by sums, and the webhook on"
            " Bindings rejects those without a free card",
            "dragoman configure kube-scheduler, koord-scheduler or vc-scheduler",
        )


def _priorities(seen: Observed, findings: list[CheckResult]) -> Iterator[CheckResult]:
    """Warn where pods with shares have priorities and no pod is evicted for another.

    A scheduler that asks Dragoman finds no victim on a node whose sums are enough.
    """
    asked = any(each.level is FindingLevel.OK and "asks Dragoman" in each.text for each in findings)
    priorities = {
        pod.spec.priority or 0
        for pod in seen.pods
        if any(_SHARES.intersection(each.resources.limits or ()) for each in pod.spec.containers)
    }
    if asked and len(priorities) > 1 and not any(each.evicts for each in seen.releases()):
        yield warning(
            "schedulers",
            f"pods with shares have {len(priorities)} different priorities, and none is evicted for"
            " another: one of high priority waits in a full cluster",
            "helm upgrade with preemption.enabled=true, if the service may evict them",
        )


def _scheduler(seen: Observed, found: SchedulerPod) -> Iterator[CheckResult]:
    program, who = found.scheduler.value, f"{found.scheduler.value} ({found.pod.name})"
    if found.source is None:
        if not found.file:
            yield warning(
                "schedulers",
                f"{who} has no configuration, so it does not ask Dragoman",
                f"dragoman configure {program} --new, if it is to place pods with a share",
            )
            return
        node = found.pod.spec.node_name or "its node"
        yield warning(
            "schedulers",
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
            "schedulers",
            f"{who}: {place} cannot be read; whether it asks Dragoman is not known",
            f"kubectl -n {namespace} get configmap {name}",
        )
        return
    command = f"kubectl -n {namespace} get configmap {name} -o yaml | dragoman configure {program}"
    source = Source(place, text, named=True)
    try:
        url = own_url(found.scheduler, source)
        alone = url is None and is_alone(found.scheduler, source)
        outcome = None if url is None else configure(found.scheduler, source, ConfigureOptions())
    except InputError as problem:
        remedy = f"correct it; dragoman configure {program} --new prints a complete one"
        yield error("schedulers", f"{who}: {problem}", remedy)
        return
    if alone:
        yield ok(
            "schedulers", f"{who} decides by its own plugin, and the webhook for Bindings commits"
        )
    elif url is None or outcome is None:
        yield warning(
            "schedulers",
            f"{who} does not ask Dragoman ({place})",
            f"if it is to place pods with a share: {command}",
        )
    else:
        unreachable, complete = _unreachable(seen, found.pod, url), outcome.before == outcome.after
        if not complete:
            yield error(
                "schedulers",
                f"{who} asks Dragoman, but {place} lacks what that needs",
                f"{command} --diff",
            )
        if unreachable is not None:
            yield unreachable
        # of a warning, the address may be reached all the same
        if complete and (unreachable is None or unreachable.level is FindingLevel.WARNING):
            yield ok("schedulers", f"{who} asks Dragoman at {urlsplit(url).netloc}")


def _unreachable(seen: Observed, pod: objects.ProgramPod, url: str) -> CheckResult | None:
    """Return what keeps a pod from an address, as far as objects show it; None for nothing."""
    address = urlsplit(url)
    host = address.hostname or ""
    if host in {"127.0.0.1", "::1", "localhost"}:
        # on the host's network, whatever listens on the node
        if pod.spec.host_network or any(each.is_service for each in pod.spec.containers):
            return None
        return error(
            "schedulers",
            f"{pod.name} asks {url}, and none of its containers is the service",
            "add the sidecar to its pod, or give the Service's address with --url",
        )
    if "services" in seen.unreadable:
        return None
    name, _, rest = host.partition(".")
    namespace, _, suffix = rest.partition(".")
    if suffix != "svc" and not suffix.startswith("svc."):
        found = [each for each in seen.services if each.spec.cluster_ip == host]
        if found:
            return _port(seen, pod, found[0], address)
        return warning(
            "schedulers",
            f"{pod.name} asks {url}, which is no Service of this cluster and is not checked",
            "see that the address is the service's; after a new installation the cluster IP"
            " differs",
        )
    for service in seen.services:
        if (service.metadata.namespace, service.metadata.name) != (namespace, name):
            continue
        if pod.spec.host_network and pod.spec.dns_policy != "ClusterFirstWithHostNet":
            return error(
                "schedulers",
                f"{pod.name} is on the host's network, whose DNS does not know {host}",
                f"--url {address.scheme}://{service.spec.cluster_ip}:{address.port or 80}, or"
                " dnsPolicy: ClusterFirstWithHostNet",
            )
        return _port(seen, pod, service, address)
    return error(
        "schedulers",
        f"{pod.name} asks {address.netloc}, and there is no Service {namespace}/{name}",
        "dragoman configure SCHEDULER --namespace NAMESPACE, or --url",
    )


def _port(
    seen: Observed, pod: objects.ProgramPod, service: objects.KubeService, address: SplitResult
) -> CheckResult | None:
    """Return what keeps a pod from a port of a Service: there is none, or policies close it."""
    port = address.port or (443 if address.scheme == "https" else 80)
    ports = [each.port for each in service.spec.ports or ()]
    space = service.metadata.namespace
    if port not in ports:
        return error(
            "schedulers",
            f"the Service {space}/{service.metadata.name} has no port {port}, which a scheduler"
            " asks",
            f"--url with one of its ports: {', '.join(map(str, ports))}",
        )
    if "namespaces" in seen.unreadable:
        return None
    own, on_host = pod.metadata.namespace, pod.spec.host_network
    caller = Caller(
        own,
        next((labels(each) for each in seen.namespaces if each.metadata.name == own), {}),
        None if on_host else labels(pod),
        (pod.status.host_ip if on_host else pod.status.pod_ip,),
    )
    targets = [each.target_port for each in service.spec.ports or () if each.port == port]
    selector = service.spec.selector or {}
    policies = closing(seen.network_policies, space, selector, (port, *targets), caller)
    if not policies:
        return None
    return warning(
        "schedulers",
        f"NetworkPolicies of {space} ({', '.join(policies)}) do not admit {pod.name} at port"
        f" {port}",
        "where the network's plugin enforces them, add its namespace to"
        " networkPolicy.schedulerNamespaces, or, for a pod on the host's network, its node's"
        " address to networkPolicy.extraClients (docs/reference/schedulers/kube-scheduler.md)",
    )


class Caller(NamedTuple):
    """A pod that calls.

    Attributes:
        namespace: its own.
        namespace_labels: those of the namespace.
        labels: its own; None on the network of its node, where no selector finds it.
        addresses: from which its calls come.
    """

    namespace: str
    namespace_labels: Mapping[str, str]
    labels: Mapping[str, str] | None
    addresses: tuple[str, ...]


def closing(
    policies: Iterable[objects.NetworkPolicy],
    namespace: str,
    called: Mapping[str, str],
    ports: Iterable[int | str],
    caller: Caller,
) -> list[str]:
    """Return the names of the policies that select the called pods, if none admits the caller.

    The called pods are those of a namespace with the labels ``called``; of their port ``ports`` has
    the number and the name. The network's plugin enforces the policies, or does not.
    Source: k8s.io/api networking/v1 types.go.
    """
    selecting = [
        each
        for each in policies
        if each.metadata.namespace == namespace
        and "Ingress" in (each.spec.policy_types or ("Ingress",))
        and objects.selects(each.spec.pod_selector, called)
    ]
    open_ports = {None, *ports}
    for rule in (rule for each in selecting for rule in each.spec.ingress or ()):
        is_open = not rule.ports or any(each.port in open_ports for each in rule.ports)
        if is_open and (
            not rule.callers or any(_is_peer(each, namespace, caller) for each in rule.callers)
        ):
            return []
    return sorted(each.metadata.name for each in selecting)


def _is_peer(peer: objects.Peer, namespace: str, caller: Caller) -> bool:
    if peer.ip_block is not None:
        outside = peer.ip_block.without or ()
        return any(
            _is_in(address, peer.ip_block.cidr)
            and not any(_is_in(address, each) for each in outside)
            for address in caller.addresses
        )
    if caller.labels is None:
        return False
    if peer.namespace_selector is None and caller.namespace != namespace:
        return False
    return objects.selects(peer.namespace_selector, caller.namespace_labels) and objects.selects(
        peer.pod_selector, caller.labels
    )


def _is_in(address: str, cidr: str) -> bool:
    try:
        return ip_address(address) in ip_network(cidr, strict=False)
    except ValueError:
        return False
