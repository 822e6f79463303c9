"""A program in a container sees the cards and the memory that the ledger grants it.

The runtime, the agent, its reading of the driver and what it injects are real; the driver is a
stand-in, and so is HAMi-core, unless ``DRAGOMAN_HAMI_CORE`` names a built libvgpu.so.
"""

import os
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest

from adapters.agent.injection.hami_core import CACHE
from adapters.agent.metrics.hami_region import read
from core.hardware.card import Card
from core.hardware.node import Node
from core.hardware.quantity import FULL, MIB
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Grant
from e2e.harness.node.agent import CARD_MAJOR, start_agent
from e2e.harness.node.driver import LOADED_FROM, PROGRAM, Driver, minor_of
from e2e.harness.node.runtime_node import RuntimeNode, start_runtime_node
from e2e.tests.node.builders import an_allocation

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a real containerd needs root")

MODELS = (("H100", 81559, 132), ("A100", 40960, 108), ("H100", 81559, 132), ("L40S", 24564, 142))
CARDS = tuple(
    Card(
        f"GPU-{index:08x}-0000-4000-8000-000000000000", "real", index, "nvidia", name, mib * MIB, 4
    )
    for index, (name, mib, _) in enumerate(MODELS)
)
H100, A100, OTHER_H100, L40S = CARDS
USER = 1000


def a_share(card: Card, mib: int, compute: int = 30) -> Grant:
    return Grant("main", card.uuid, mib * MIB, compute)


def whole(card: Card) -> Grant:
    return Grant("main", card.uuid, card.memory, FULL, exclusive=True)


GRANTS = {
    "half the compute of a whole card": [a_share(A100, 40960, 50)],
    "two cards of two models": [a_share(L40S, 6140), a_share(OTHER_H100, 20380)],
    "a whole card beside a share": [a_share(OTHER_H100, 2000), whole(A100)],
}
"""Grants of one container, in the order in which a scheduler may have chosen the cards."""


@dataclass(frozen=True, slots=True)
class Place:
    """A node with a driver, on which an agent runs."""

    node: RuntimeNode
    driver: Driver
    numbers: Iterator[int] = field(default_factory=count)

    def container(self, grants: list[Grant], *, user: int = 0, read_only: bool = False) -> str:
        held = an_allocation(*grants, uid=f"uid-{next(self.numbers)}")
        self.node.host.write_ledger(NodeLedger.of(Node("real", CARDS)).adopt(held))
        sandbox = self.node.cri.sandbox("pod", held.uid, {"volcano.sh/vgpu-ids-new": "not read"})
        mounts = {"/lib64": str(self.driver.folder)}
        container = self.node.cri.create(
            sandbox, "main", LOADED_FROM, mounts=mounts, user=user, read_only=read_only
        )
        self.node.cri.start(container)
        return container

    def program(self, container: str) -> list[str]:
        """What the program prints, and HAMi-core beside it."""
        words = ["/bin/sh", "-c", f"{PROGRAM} 2>&1"]
        return self.node.cri.exec(container, words).splitlines()


@pytest.fixture(scope="module")
def node() -> Iterator[Place]:
    with start_runtime_node("containerd-2") as found:
        multiprocessors = [each for *_, each in MODELS]
        driver = Driver.build(found.run.folder / "driver", CARDS, multiprocessors)
        (found.host.folder / "vgpu" / "libvgpu.so").write_bytes(driver.hami_core.read_bytes())
        found.begin()
        configuration = found.host.configuration(found.runtime, inventory={"source": "nvml"})
        start_agent(found.runtime, found.host, configuration, command=with_driver(found, driver))
        yield Place(found, driver)
        found.end()


@pytest.fixture
def place(node: Place) -> Iterator[Place]:
    yield node
    node.node.cri.clear()


def with_driver(node: RuntimeNode, driver: Driver) -> list[str]:
    """The command of an agent that finds the driver's library, and its device nodes in ``/dev``."""
    upper, work = node.run.folder / "dev", node.run.folder / "dev-work"
    upper.mkdir()
    work.mkdir()
    for card in CARDS:
        minor = minor_of(card, CARDS)
        device = os.makedev(CARD_MAJOR, 100 + minor)
        os.mknod(upper / f"nvidia{minor}", stat.S_IFCHR | 0o666, device)
    layers = f"lowerdir=/dev,upperdir={upper},workdir={work}"
    script = f'mount --no-mtab -t overlay -o {layers} overlay /dev && exec "$@"'
    agent = [sys.executable, "-P", "-m", "adapters.agent"]
    environment = ["env", f"LD_LIBRARY_PATH={driver.folder}"]
    return ["unshare", "--mount", "sh", "-c", script, "sh", *environment, *agent]


@pytest.mark.parametrize("confined", [False, True], ids=["root", "user 1000, read-only"])
@pytest.mark.parametrize("grants", GRANTS.values(), ids=GRANTS)
def test_a_program_sees_its_grants_in_the_containers_order(
    place: Place, grants: list[Grant], confined: bool
) -> None:
    container = place.container(grants, user=USER * confined, read_only=confined)

    lines = place.program(container)

    cards = sorted(grants, key=lambda grant: grant.card)  # by their place on the bus
    assert [line for line in lines if line.startswith("card ")] == [
        f"card {number} {grant.card[4:12]} {mib} {mib} given refused"
        for number, grant in enumerate(cards)
        for mib in [grant.memory // MIB]
    ]
    # One attempt at the lock, and none at a region that cannot be written.
    assert [line for line in lines if "waiting" in line.lower() or "fail" in line.lower()] == []
    region = read(cache_of(place, container))
    assert [(card.uuid, card.limit) for card in region.cards] == [
        (grant.card, grant.memory) for grant in cards
    ]
    nodes = place.node.cri.exec(container, ["/bin/ls", "/dev"]).split()
    minors = {minor_of(card, CARDS) for card in CARDS if card.uuid in {g.card for g in grants}}
    assert {name for name in nodes if name.startswith("nvidia")} == {f"nvidia{m}" for m in minors}


def test_root_alone_may_not_keep_the_lock(place: Place) -> None:
    """The check of the test above finds attempts, where there are several."""
    if place.driver.real:
        pytest.skip("HAMi-core sleeps a second after each of its 20 attempts")
    container = place.container(GRANTS["two cards of two models"], user=USER)
    lock = place.node.host.folder / "vgpulock"
    lock.chmod(0o700)

    lines = place.program(container)

    lock.chmod(0o1777)
    assert len([line for line in lines if "waiting" in line]) > 1


def test_a_whole_card_is_seen_without_hami_core(place: Place) -> None:
    container = place.container([whole(L40S)], user=USER, read_only=True)

    lines = place.program(container)

    assert lines == [f"card 0 {L40S.uuid[4:12]} 24564 24564 given refused"]


def cache_of(place: Place, container: str) -> Path:
    """The region's file on the node."""
    inside = Path(place.node.cri.env(container)[CACHE])
    return place.node.host.folder / "vgpu" / "containers" / inside.stem / inside.name
