"""What gives cards to containers: node agents, device plugins, other components.

Checked is whether each node with cards has an agent, NRI, and who serves cards beside another.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

from msgspec import UNSET

from adapters.accounting.published_resources import written
from adapters.cli.configure.options import NAMES
from adapters.cli.doctor.finding import CheckResult, error, ok, warning
from adapters.cli.doctor.objects import ProgramContainer, ProgramController, ProgramPod
from adapters.cli.doctor.observed import AGENT, Observed, nodes_with_cards
from adapters.cli.output.report import named
from adapters.cli.output.terminal import first_names
from adapters.dialects import registry
from adapters.dialects.adoption import FINISHED
from adapters.dialects.device_plugins import plugin_share, read_plugin_node
from adapters.dialects.dialect import Defaults, DialectError
from adapters.dialects.matching import plain_amounts
from adapters.wire.kube import Container, Pod, PodSpec, PodStatus, full_name

_REMEDY = (
    "label the nodes nvidia.com/gpu.deploy.device-plugin=false where NVIDIA's operator runs the"
    " plugin, or take them out of node.nodeSelector in the values"
)

_NEED_EVERY_CARD = (
    "dcgm",
    "gpu-feature-discovery",
    "gpu-operator-validator",
    "hami",
    "k8s-device-plugin",
    "k8s-mig-manager",
    "volcano-vgpu-device-plugin",
)
"""Parts of the names of images that use all cards and request none. Source: the Dockerfiles of
NVIDIA's (``NVIDIA_VISIBLE_DEVICES=all``), HAMi charts/hami/templates/device-plugin."""


class _Known(NamedTuple):
    """A component of another project.

    Attributes:
        image: a part of the name of its image.
        name: for people.
        overlap: what it does that the agent or the service does too; empty for nothing.
        remedy: for an overlap.
        does: what it does where it does not overlap.
    """

    image: str
    name: str
    overlap: str = ""
    remedy: str = ""
    does: str = "describes cards, and injects nothing with the agent beside it"


NRI_BY_DEFAULT = (2, 0)
"""The first containerd with NRI enabled; 1.7 has it disabled. Source: containerd RELEASES.md."""

NRI_SINCE = (1, 7)

_SEE = "docs/reference/node-agent.md, 'What a container gets', says which of the two holds"

_KNOWN = (
    _Known("volcano-vgpu-device-plugin", "Volcano's vGPU device plugin"),
    _Known(
        "koordlet",
        "koordlet",
        "its gate GPUEnvInject, where it is on, sets NVIDIA_VISIBLE_DEVICES",
        f"{_SEE}; the gate must be off where mirrors names koordinator (docs/reference/mirrors.md)",
    ),
    _Known("metax-device-plugin", "MetaX's device plugin"),
    _Known("gpu-device", "MetaX's device plugin"),
    _Known(
        "k8s-device-plugin",
        "NVIDIA's device plugin",
        does="serves its nodes; 'device-plugins' says which of them are Dragoman's too",
    ),
    _Known(
        "hami",
        "HAMi",
        "its scheduler, where it runs, keeps a ledger of its own of the same cards",
        "keep its pods off nodes whose cards Dragoman shares; those that run are adopted",
    ),
)
"""Source of the names: the projects' charts and Dockerfiles; in docs/reference/compatibility.md."""


_UNENFORCED = re.compile(r"(.*/)?(hami:v?2\.[67]|volcano-vgpu-device-plugin:v?1\.11)\b.*")
"""Images with a HAMi-core that limits nothing in some containers: seen by running it; see
docs/reference/compatibility.md."""


def check_device_plugins(seen: Observed) -> Iterator[CheckResult]:
    """Say what happens to pods of nodes that are not ours, and which nodes two components serve."""
    if "nodes" in seen.unreadable:
        return
    described = nodes_with_cards(seen)
    stated: dict[str, frozenset[str]] = {}
    for node in seen.nodes:
        plugin = read_plugin_node(node)
        if plugin is not None:
            stated[node.metadata.name] = frozenset(plugin.resources.keys() - written(node))
    pods = _plain_pods(seen.pods)
    alone = {name: each for name, each in stated.items() if each and name not in described}
    if alone:
        names = sorted(frozenset[str]().union(*alone.values()))
        what = "1 node states" if len(alone) == 1 else f"{len(alone)} nodes state"
        text = (
            f"{what} {', '.join(names)} by a device plugin, and no annotation, Device or agent"
            f" describes the cards ({named([*alone])})"
        )
        if "pods" not in seen.unreadable:
            running = sum(pod.spec.node_name in alone for pod in pods)
            waiting = sum(not pod.spec.node_name for pod in pods)
            text += f"; {running} pods have such devices there, {waiting} wait for some"
        text += ". They are not Dragoman's: admitted, bound and started unchanged"
        yield ok("device-plugins", text)
    plugins = {
        pod.spec.node_name
        for pod in seen.pods
        if pod.status.phase not in FINISHED
        # AMD's image has the same last name
        if any(
            each.image_name == "k8s-device-plugin" and "rocm" not in each.image
            for each in pod.spec.containers
        )
    }
    beside: dict[str, list[str]] = {"the agent": [], "the one of HAMi": []}
    for name, cards in described.items():
        if cards.has_dialect("hami"):
            if name in plugins:
                beside["the one of HAMi"].append(name)
        elif cards.by_agent and (stated.get(name) or name in plugins):
            beside["the agent"].append(name)
    for other, nodes in beside.items():
        if nodes:
            text = f"NVIDIA's device plugin and {other} give the same cards to containers on"
            users = [full_name(pod) for pod in pods if pod.spec.node_name in nodes]
            there = f"; pods of the plugin there: {first_names(users)}" if users else ""
            yield warning("device-plugins", f"{text} {named(nodes)}{there}", _REMEDY)


def _plain_pods(pods: Iterable[ProgramPod]) -> list[Pod]:
    """Return the pods that have devices of a plugin or wait for some, and request nothing else."""
    dialects = registry.dialects({}, Defaults())
    found = []
    for each in pods:
        spec = PodSpec(
            containers=_containers(each.spec.containers),
            init_containers=_containers(each.spec.init_containers or ()),
            node_name=each.spec.node_name,
        )
        pod = Pod(each.metadata, spec, PodStatus(each.status.phase))
        with suppress(DialectError):
            if pod.status.phase not in FINISHED and plain_amounts(pod, dialects):
                found.append(pod)
    return found


def _containers(containers: Iterable[ProgramContainer]) -> tuple[Container, ...]:
    return tuple(Container(each.name, each.resources, each.restart_policy) for each in containers)


def check_components(seen: Observed) -> Iterator[CheckResult]:
    """Return a finding for each component that is known."""
    if "daemonsets" in seen.unreadable:
        return
    found: list[CheckResult] = []
    agents = seen.agents()
    alone = True
    for each in seen.daemon_sets:
        spec = each.spec.template.spec
        names = [one.image_name for one in spec.containers]
        known = next((kind for kind in _KNOWN if any(kind.image in name for name in names)), None)
        place = f"{each.metadata.namespace}/{each.metadata.name}"
        parts: list[tuple[str, str]] = []
        if known is not None and each not in agents:
            alone = False
            if known.overlap:
                parts.append((f"{known.name} ({place}): {known.overlap}", known.remedy))
            else:
                found.append(ok("injectors", f"{known.name} ({place}) {known.does}"))
        images = [one.image for one in (*spec.containers, *(spec.init_containers or ()))]
        for image in filter(_UNENFORCED.fullmatch, images):
            text = (
                f"HAMi-core of {image} ({place}) limits nothing in containers of several cards that"
                " set CUDA_VISIBLE_DEVICES"
            )
            parts.append((text, "use HAMi 2.8 or Volcano's plugin 1.12, or later"))
        if parts:
            texts, remedies = zip(*parts, strict=True)
            found.append(warning("injectors", "; ".join(texts), "; ".join(remedies)))
    if alone:
        reported = "; the agents report the cards" if agents else ""
        yield ok("injectors", f"no device plugin that Dragoman knows{reported}")
    yield from _without_cards(seen)
    yield from found


def _without_cards(seen: Observed) -> Iterator[CheckResult]:
    """Return a finding where the agents hide the cards from components that need them."""
    exempt = seen.exempt()
    if exempt is None:
        return
    agents = seen.agents()
    nodes = {pod.spec.node_name for pod in seen.pods if _is_agent(pod, agents)}
    pods = [
        pod.name
        for pod in seen.pods
        if pod.spec.node_name in nodes and pod.metadata.namespace not in exempt
        if any(part in each.image_name for each in pod.spec.containers for part in _NEED_EVERY_CARD)
    ]
    if pods:
        spaces = ",".join(sorted({*exempt, *(name.partition("/")[0] for name in pods)}))
        yield warning(
            "injectors",
            f"the agent hides the cards from {first_names(pods)}: components that need"
            " every card and request none",
            f"helm upgrade with --set 'node.exempt={{{spaces}}}'; tenants must not be able to"
            " create pods there",
        )


def check_agents(seen: Observed) -> Iterator[CheckResult]:
    """Return the DaemonSet, and each node that needs an agent and has none that is ready."""
    agents = seen.agents()
    if not agents:
        if any(each.settings and "agentPort" not in each.settings for each in seen.releases()):
            yield ok("agents", "the values have no node agent: containers with a share see no card")
        elif "daemonsets" not in seen.unreadable:
            yield error(
                "agents",
                f"no DaemonSet has the labels of the chart's component {AGENT}",
                "helm upgrade with node.enabled=true; without the agent, containers with a share"
                " see no card",
            )
        return
    for each in agents:
        ready, wanted = each.status.number_ready, each.status.desired_number_scheduled
        text = f"{ready} of {wanted} agents of {each.metadata.namespace}/{each.metadata.name}"
        logs = f"kubectl -n {each.metadata.namespace} describe pods, and the log of the agent"
        nowhere = "see the nodeSelector and the affinity of node in the values"
        if ready >= wanted > 0:
            yield ok("agents", f"{text} are ready")
        else:
            yield warning("agents", f"{text} are ready", logs if wanted else nowhere)
    if "pods" in seen.unreadable:
        return
    pods = {pod.spec.node_name: pod for pod in seen.pods if _is_agent(pod, agents)}
    reported = {each.metadata.name for each in seen.ledgers if each.status is not UNSET}
    described = nodes_with_cards(seen)
    # no vendor's device plugin serves these by itself
    shares = [name for name in NAMES if plugin_share(name) is None]
    for node in seen.nodes:
        name, amounts = node.metadata.name, node.status.allocatable or {}
        if name not in described and all(str(amounts.get(each, "0")) == "0" for each in shares):
            continue
        agent, runtime = pods.get(name), node.status.node_info.container_runtime_version
        if agent is None:
            yield error(
                "agents",
                f"node {name} states cards, and no agent runs there",
                "see the nodeSelector, affinity and tolerations of node in the values",
            )
        elif not agent.ready:
            logs = f"kubectl -n {agent.metadata.namespace} logs {agent.metadata.name}"
            yield error(
                "agents",
                f"the agent {agent.name} on node {name} is not ready ({runtime})",
                f"{logs}. {_nri(runtime)}",
            )
        elif name not in reported:
            yield warning(
                "agents",
                f"the agent on node {name} has reported no cards in the NodeLedger's status",
                "see its log; publish.enabled in node's values may be off",
            )


def _nri(runtime: str) -> str:
    program, _, text = runtime.partition("://")
    found = re.match(r"v?(\d+)\.(\d+)", text)
    version = tuple(map(int, found.groups())) if found else ()
    if program != "containerd":
        return f"NRI must be enabled in {program or 'the runtime'}"
    if version < NRI_SINCE:
        return "NRI needs containerd 1.7 or later"
    if version < NRI_BY_DEFAULT:
        return "NRI is disabled in containerd 1.7 unless its configuration enables it"
    return "See that containerd's configuration does not disable NRI"


def _is_agent(pod: ProgramPod, agents: list[ProgramController]) -> bool:
    """Whether a pod is of one of the agents' DaemonSets."""
    return any(
        pod.metadata.namespace == each.metadata.namespace
        and pod.metadata.name.startswith(f"{each.metadata.name}-")
        for each in agents
    )
