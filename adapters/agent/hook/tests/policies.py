"""A policy on a node with four cards, for tests."""

from msgspec.structs import replace as changed

from adapters.agent.grants import LedgerGrants
from adapters.agent.hook.facts import GivenDevices
from adapters.agent.hook.policy import NoGrantYet, Policy
from adapters.agent.injection.profiles import VendorProfile
from adapters.agent.nri.model import (
    Adjustment,
    NriContainer,
    PodSandbox,
)
from adapters.agent.tests.builders import POD, equipment
from core.hardware.quantity import GIB
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Grant

HALF = Grant("main", "GPU-1", GIB, 50)
KOORDINATED = changed(
    POD, annotation_keys=frozenset({"scheduling.koordinator.sh/device-allocated"})
)


AUTHORS = ["GPU-2", "GPU-0,GPU-2", "2", "0,1", "all", "nvidia.com/gpu=0", "MIG-7", "GPU-2,void"]


def policy(
    profile: VendorProfile,
    held: NodeLedger | None,
    *exempt: str,
    assigned: str = "",
    passed: str = "",
) -> Policy:
    """``assigned``, ``passed``: what device plugins gave to the containers named main."""

    def given(_pod: str, name: str) -> GivenDevices:
        if name != "main":
            return GivenDevices()
        return GivenDevices(*(frozenset(filter(None, t.split(","))) for t in (assigned, passed)))

    return Policy(LedgerGrants(held), lambda: equipment(nvidia=profile), frozenset(exempt), given)


def adjust(by: Policy, pod: PodSandbox, to: NriContainer) -> Adjustment | NoGrantYet:
    return by.adjust(by.facts(pod, to))
