"""The cost of the node agent: added time per container, its memory, and its start."""

import json
import re
import signal
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from itertools import cycle, islice, permutations
from operator import sub
from pathlib import Path
from time import perf_counter, sleep
from typing import TYPE_CHECKING, Any

import msgspec
from least import build, connected

from adapters.agent.config import AgentConfig, profiles
from adapters.agent.grants import LedgerGrants
from adapters.agent.hook.policy import Policy
from adapters.agent.injection.adjustment import Equipment
from adapters.agent.injection.profiles import NVIDIA
from adapters.agent.nri import ttrpc
from adapters.agent.nri.model import PLUGIN_SERVICE, Adjustment, NriContainer, PodSandbox
from adapters.agent.nri.protobuf import message, text
from adapters.agent.nri.session import Creating, Session
from core.hardware.card import Card
from core.hardware.node import Node
from core.hardware.quantity import GIB
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Allocation, Grant

if TYPE_CHECKING:
    from e2e.harness.node.agent import Host
    from e2e.harness.node.containerd import Containerd
    from e2e.harness.node.cri import Cri, Sandbox

BLOCKS, ROUNDS = 12, 20
"""Blocks, and creations of each kind per block; every order of three ways is as frequent."""

SETTLE = 0.05
"""Seconds until the runtime notices that a plugin has disconnected."""

PODS = (
    PodSandbox(name="plain", uid="no-share"),
    PodSandbox(name="train", uid="uid-7", annotation_keys=frozenset({"volcano.sh/vgpu-ids-new"})),
)
"""One pod without a share, and one with a share of a card."""

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108  # to measure without a disk


def ledger(pods: int = 100) -> NodeLedger:
    """The ledger of a node with eight cards and that many pods."""
    cards = tuple(Card(f"GPU-{i}", "real", i, "nvidia", "A", 80 * GIB, 99) for i in range(8))
    found = NodeLedger.of(Node("real", cards))
    for number in range(pods):
        grant = Grant("main", f"GPU-{number % 8}", GIB, 1)
        found = found.adopt(Allocation(f"uid-{number}", "ai/p", "volcano", "real", (grant,)))
    return found


def call(method: str, payload: bytes) -> bytes:
    """A call of the runtime, as bytes of the socket."""
    request = ttrpc.RpcRequest(PLUGIN_SERVICE, method, payload, 2 * 10**9)
    data = ttrpc.encode_request(request)
    return ttrpc.frames(ttrpc.PLUGIN, ttrpc.encode(ttrpc.RpcMessage(5, ttrpc.REQUEST, data)))


def create_container() -> bytes:
    """CreateContainer as containerd sends it for a container with 60 variables and ten mounts."""
    notes = {f"io.kubernetes.cri.note-{i}": "a value of the runtime's" for i in range(7)}
    pod = text(1, "p") + text(2, "train") + text(3, "uid-7") + text(4, "ai")
    pod += b"".join(message(6, text(1, k) + text(2, v)) for k, v in notes.items())
    env = b"".join(text(8, f"SERVICE_{i}_PORT=tcp://10.0.0.{i}:80") for i in range(60))
    options = b"".join(text(4, word) for word in ("nosuid", "noexec", "nodev", "rbind"))
    mounts = b"".join(
        message(9, text(1, f"/mnt/{i}") + text(2, "bind") + text(3, f"/host/{i}") + options)
        for i in range(10)
    )
    payload = message(1, pod) + message(2, text(1, "c") + text(3, "main") + env + mounts)
    return call("CreateContainer", payload)


def handler_us() -> float:
    """Microseconds from the bytes of a call to those of its answer: a share, without host files."""
    grants = LedgerGrants(ledger())
    profile = replace(NVIDIA, hami=None, card_devices=(), devices=(), optional_devices=())
    equipment = Equipment(grants.cards(), {"nvidia": profile})
    policy = Policy(grants, lambda: equipment)
    session = Session("dragoman", "50")
    session.register()
    session.feed(call("Configure", b"") + call("Synchronize", b""))
    sent = create_container()
    times: list[float] = []
    for _ in range(2_000):
        start = perf_counter()
        (creating,) = session.feed(sent).events
        if not isinstance(creating, Creating):
            sys.exit("the session made no CreateContainer event")
        adjustment = policy.adjust(policy.facts(creating.pod, creating.container))
        if not isinstance(adjustment, Adjustment):
            sys.exit("the policy made no adjustment")
        session.reply(creating.stream, adjustment)
        times.append(perf_counter() - start)
    return statistics.median(times) * 1e6


def measure(report: Callable[..., None], component: str = "containerd-2") -> None:
    """Measure everything; without a runtime in the test bed, only what needs none.

    ``nri_added_ms`` is the time that the agent adds to a container without a share, as most are;
    ``nri_added_share_ms`` to one with a share, for which the runtime itself has more to do. The
    names with ``least`` are those of a plugin that sends the same prepared answers
    (``least_plugin.c``): no plugin adds less.

    Args:
        report: prints one result.
        component: name of the runtime in the test bed.
    """
    report("nri_handler_us", handler_us(), "us")
    try:
        with _runtime(component) as (runtime, cri, host):
            _measure_added(report, runtime, cri, host)
    except (ImportError, FileNotFoundError, PermissionError) as error:
        sys.stderr.write(f"nri_added_ms and agent_rss_mib are left out: {error}\n")


@contextmanager
def _runtime(component: str) -> Iterator[tuple["Containerd", "Cri", "Host"]]:
    from e2e.harness.node.agent import Host
    from e2e.harness.node.containerd import start_containerd
    from e2e.harness.node.cri import Cri
    from e2e.harness.node.machine import start_machine
    from e2e.harness.processes import cgroups
    from e2e.harness.processes.run import run

    if SHARED_MEMORY.is_dir():
        tempfile.tempdir = str(SHARED_MEMORY)
    with ExitStack() as stack:
        this = stack.enter_context(run())
        runtime = start_containerd(start_machine(this), component)
        group = cgroups.create(this.folder)
        cri = stack.enter_context(Cri.connect(runtime.socket, group, this.folder))
        cri.wait()
        yield runtime, cri, Host.make(this.folder / "host")
        cri.clear()


def _measure_added(
    report: Callable[..., None], runtime: "Containerd", cri: "Cri", host: "Host"
) -> None:
    from e2e.harness.node.agent import start_agent

    host.write_ledger(ledger())
    configuration = host.configuration(runtime, monitor={"listen": "127.0.0.1:0"})
    sandboxes = [
        cri.sandbox(pod.name, pod.uid, dict.fromkeys(pod.annotation_keys, "x")) for pod in PODS
    ]
    program, prepared = build(host.folder), answers(configuration)
    starts: list[float] = []
    memory: list[float] = []

    @contextmanager
    def hook() -> Iterator[None]:
        start = perf_counter()
        agent = start_agent(runtime, host, configuration)
        starts.append(perf_counter() - start)
        yield
        memory.append(_resident(agent.process.popen.pid))
        agent.process.identity.signal_group(signal.SIGTERM)
        agent.process.popen.wait(10)
        runtime.machine.run.processes.remove(agent.process)

    def least() -> AbstractContextManager[None]:
        return connected(program, runtime.nri, PODS[1].uid, *prepared)

    took = compare(cri, sandboxes, {"without": nullcontext, "least": least, "hook": hook})
    for place, name in enumerate(("nri_added", "nri_added_share")):
        without, floor, full = ([block[place] for block in took[way]] for way in took)
        bare = statistics.median(without)
        for kind, asked in ((f"{name}_least_ms", floor), (f"{name}_ms", full)):
            added = statistics.median(map(sub, asked, without))
            report(kind, added * 1e3, "ms", "create_without", (bare + added) / bare)
    report("agent_rss_mib", max(memory), "MiB")
    report("agent_start_ms", statistics.median(starts) * 1e3, "ms")


def answers(configuration: dict[str, Any]) -> list[Adjustment]:
    """What the agent answers to CreateContainer in each of the pods."""
    grants = LedgerGrants(ledger())
    equipment = Equipment(grants.cards(), profiles(msgspec.convert(configuration, AgentConfig)))
    policy = Policy(grants, lambda: equipment)
    found = [policy.adjust(policy.facts(pod, NriContainer(name="main"))) for pod in PODS]
    return [each for each in found if isinstance(each, Adjustment)]


def compare(
    cri: "Cri",
    sandboxes: Sequence["Sandbox"],
    ways: Mapping[str, Callable[[], AbstractContextManager[None]]],
) -> dict[str, list[list[float]]]:
    """By way and block, the median time of a container's creation in each sandbox, in seconds.

    The ways take turns, in every order equally often, so that a drift affects all of them.
    """
    took: dict[str, list[list[float]]] = {way: [] for way in ways}
    _block(cri, sandboxes)
    for order in islice(cycle(permutations(ways)), BLOCKS):
        for way in order:
            with ways[way]():
                took[way].append(_block(cri, sandboxes))
            sleep(SETTLE)
    return took


def _block(cri: "Cri", sandboxes: Sequence["Sandbox"]) -> list[float]:
    times: list[list[float]] = [[] for _ in sandboxes]
    for _ in range(ROUNDS):
        for sandbox, taken in zip(sandboxes, times, strict=True):
            start = perf_counter()
            container = cri.create(sandbox, "main")
            taken.append(perf_counter() - start)
            cri.remove(container)
    return [statistics.median(taken) for taken in times]


def _resident(pid: int) -> float:
    """MiB of the process, or of its child: ``nsenter`` may have started it in a namespace."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    status = Path(f"/proc/{children[-1] if children else pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    return int(found[1]) / 1024 if found else 0.0


if __name__ == "__main__":
    measure(lambda *result: print(json.dumps(result), flush=True), *sys.argv[1:])
