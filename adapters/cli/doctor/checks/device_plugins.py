"""Nodes that a vendor's device plugin serves: alone, or beside other components."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from adapters.accounting.published_resources import written
from adapters.cli.doctor.described_nodes import kube_node, nodes_with_cards
from adapters.cli.doctor.finding import CheckResult, ok, warning
from adapters.cli.doctor.objects import ProgramNode
from adapters.cli.doctor.observed import Observed
from adapters.cli.doctor.programs import ProgramContainer, ProgramPod
from adapters.cli.output.amounts import named
from adapters.dialects import registry
from adapters.dialects.adoption.adopt import FINISHED
from adapters.dialects.device_plugins import read_plugin_node
from adapters.dialects.dialect import Defaults, Dialect, DialectError
from adapters.dialects.matching import plain_amounts
from adapters.wire.kube import Container, Pod, PodSpec, PodStatus, full_name

CHECK = "device-plugins"

HAMI = "hami"

NAMED = 5
"""Pods that are named, at most."""

_IMAGE, _OTHER_VENDOR = "k8s-device-plugin", "rocm"
"""NVIDIA's image, and a part of AMD's, which has the same last name."""

_REMEDY = (
    "label the nodes nvidia.com/gpu.deploy.device-plugin=false where NVIDIA's operator runs the"
    " plugin, or take them out of node.nodeSelector in the values"
)


def check(seen: Observed) -> Iterator[CheckResult]:
    """What happens to the pods of nodes that are not ours, and nodes that two components serve."""
    if "nodes" in seen.unreadable:
        return
    described = nodes_with_cards(seen)
    stated = {each.metadata.name: _stated(each) for each in seen.nodes}
    pods = _plain_pods(seen.pods)
    alone = {name: each for name, each in stated.items() if each and name not in described}
    if alone:
        yield _not_ours(alone, pods, readable="pods" not in seen.unreadable)
    plugins = {pod.spec.node_name for pod in seen.pods if _is_nvidias_plugin(pod)}
    beside = [
        name
        for name, node in described.items()
        if (stated.get(name) or name in plugins) and node.by_agent and not node.has_dialect(HAMI)
    ]
    if beside:
        yield warning(CHECK, f"{_both('the agent', beside)}{_users(beside, pods)}", _REMEDY)
    twice = [n for n, node in described.items() if node.has_dialect(HAMI) and n in plugins]
    if twice:
        yield warning(CHECK, f"{_both('the one of HAMi', twice)}{_users(twice, pods)}", _REMEDY)


def _stated(node: ProgramNode) -> frozenset[str]:
    """The resources of device plugins that a node states and the service did not write."""
    kube = kube_node(node)
    found = read_plugin_node(kube)
    return frozenset() if found is None else frozenset(found.resources.keys() - written(kube))


def _not_ours(
    alone: Mapping[str, frozenset[str]], pods: Sequence[Pod], *, readable: bool
) -> CheckResult:
    names = sorted(frozenset[str]().union(*alone.values()))
    what = "1 node states" if len(alone) == 1 else f"{len(alone)} nodes state"
    text = (
        f"{what} {', '.join(names)} by a device plugin, and no annotation, Device or agent"
        f" describes the cards ({named([*alone])})"
    )
    if readable:
        running = sum(pod.spec.node_name in alone for pod in pods)
        waiting = sum(not pod.spec.node_name for pod in pods)
        text += f"; {running} pods have such devices there, {waiting} wait for some"
    return ok(CHECK, f"{text}. They are not Dragoman's: admitted, bound and started unchanged")


def _both(other: str, nodes: Sequence[str]) -> str:
    return f"NVIDIA's device plugin and {other} give the same cards to containers on {named(nodes)}"


def _users(nodes: Sequence[str], pods: Iterable[Pod]) -> str:
    users = [full_name(pod) for pod in pods if pod.spec.node_name in nodes]
    if not users:
        return ""
    more = f" and {len(users) - NAMED} more" if len(users) > NAMED else ""
    return f"; pods of the plugin there: {', '.join(users[:NAMED])}{more}"


def _plain_pods(pods: Iterable[ProgramPod]) -> list[Pod]:
    """The pods that have devices of a plugin, or wait for some, and request nothing else."""
    dialects = registry.dialects({}, Defaults())
    return [pod for pod in map(_as_pod, pods) if _is_plain(pod, dialects)]


def _is_plain(pod: Pod, dialects: Sequence[Dialect]) -> bool:
    if pod.status.phase in FINISHED:
        return False
    try:
        return bool(plain_amounts(pod, dialects))
    except DialectError:
        return False


def _as_pod(pod: ProgramPod) -> Pod:
    """The pod as the dialects read it."""
    spec = PodSpec(
        containers=_containers(pod.spec.containers),
        init_containers=_containers(pod.spec.init_containers or ()),
        node_name=pod.spec.node_name,
    )
    return Pod(pod.metadata, spec, PodStatus(pod.status.phase))


def _containers(containers: Iterable[ProgramContainer]) -> tuple[Container, ...]:
    return tuple(Container(each.name, each.resources, each.restart_policy) for each in containers)


def _is_nvidias_plugin(pod: ProgramPod) -> bool:
    return pod.status.phase not in FINISHED and any(
        each.image_name == _IMAGE and _OTHER_VENDOR not in each.image
        for each in pod.spec.containers
    )
