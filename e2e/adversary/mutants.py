"""The service's rules, each of which can be disabled, to show that the checker catches it.

``stops.program`` starts a service without one. The rules are replaced in that process only; the
product has no switch for them.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from types import ModuleType

from adapters.dialects import adoption, allocation_record
from adapters.dialects.dialect import Dialect, Result
from adapters.dialects.dra.claims import Claim
from adapters.dialects.registry import mirror_mark
from adapters.dialects.volcano.keys import ASSIGNED
from adapters.dialects.volcano.keys import NAME as VOLCANO
from adapters.repairs import plan as repair_plan
from adapters.repairs.repairs import NodeView
from adapters.service.decide import service
from adapters.service.decide.commit import claim_review, validate
from adapters.service.decide.commit.attempt import ClaimOption
from adapters.service.decide.commit.committer import Committer
from adapters.service.decide.ports import Ports
from adapters.service.decide.state.ledger_cache import LedgerCache
from adapters.service.reconcile.nodes import controller, node_reader
from adapters.service.reconcile.nodes.pod_writer import PodWriter
from adapters.stores.kubernetes import KubernetesStore
from adapters.stores.store import Conflict
from adapters.wire.dra import ResourceClaim
from adapters.wire.kube import Pod, annotations
from core.feasibility import fit
from core.hardware import mig
from core.hardware.card import Card
from core.hardware.mig import Geometry, Slice
from core.hardware.node import Node
from core.hardware.quantity import FULL, MIB
from core.ledger import node_ledger, usage
from core.ledger.node_ledger import NodeLedger
from core.ledger.usage import CardShare, CardUsage
from core.requests.grant import Allocation, Grant
from core.requests.reason import Obstacle
from core.requests.request import ANY_TERMS, Phase, PodRef, Request
from e2e.adversary.terms import MISSING

Case = tuple[Card, CardUsage, CardShare]
"""The arguments of ``first_conflict``."""


def _replace(module: ModuleType, name: str, other: object) -> None:
    """Replace a name of a module, which must have it: else the mutant would be the product."""
    getattr(module, name)
    setattr(module, name, other)


def _blind(change: Callable[[Card, CardUsage, CardShare], Case]) -> Callable[[], None]:
    """The invariant of a card does not see what the change hides."""

    def apply() -> None:
        original = usage.first_conflict

        def first_conflict(card: Card, use: CardUsage, new: CardShare) -> Obstacle | None:
            return original(*change(card, use, new))

        for module in (usage, node_ledger, fit):
            _replace(module, "first_conflict", first_conflict)

    return apply


def _shares(change: Callable[[CardShare], CardShare]) -> Callable[[], None]:
    """The invariant of a card does not see a field of the shares."""

    def each(card: Card, use: CardUsage, new: CardShare) -> Case:
        return card, replace(use, shares=tuple(map(change, use.shares))), change(new)

    return _blind(each)


def _without_term(field: str) -> Callable[[], None]:
    """The shares have the default of one of their terms."""
    default = {field: getattr(ANY_TERMS, field)}
    return _shares(lambda share: replace(share, terms=replace(share.terms, **default)))


def _memory(card: Card, use: CardUsage, new: CardShare) -> Case:
    return replace(card, memory=1 << 50), use, new


def _slots(card: Card, use: CardUsage, new: CardShare) -> Case:
    return replace(card, slots=1 << 20), use, new


def _compute(card: Card, use: CardUsage, new: CardShare) -> Case:
    return card, replace(use, compute=0), replace(new, compute=min(new.compute, FULL))


def _layouts(card: Card, use: CardUsage, new: CardShare) -> Case:
    return replace(card, geometry=replace(card.geometry, mixed=True)), use, new


def _slices() -> None:
    """Slices in use count as free."""
    _free(lambda geometry, _: (geometry, ()))
    _shares(lambda share: replace(share, slices=()))()


def _mixed() -> None:
    """A card may have slices of several layouts."""
    _free(lambda geometry, held: (replace(geometry, mixed=True), held))
    _blind(_layouts)()


def _free(change: Callable[[Geometry, Sequence[Slice]], tuple[Geometry, Sequence[Slice]]]) -> None:
    """The search for free slices does not see what the change hides."""
    original = mig.free_slices

    def free_slices(
        geometry: Geometry, held: Sequence[Slice], memory: int = 0, compute: int = 0
    ) -> list[Slice]:
        return original(*change(geometry, held), memory, compute)

    _replace(mig, "free_slices", free_slices)


def _compare_and_swap() -> None:
    """A write replaces whatever another replica wrote meanwhile."""
    original = KubernetesStore.write

    async def write(self: KubernetesStore, ledger: NodeLedger, expected: str | None) -> str:
        while True:
            try:
                return await original(self, ledger, expected)
            except Conflict:
                newest = await self.read(ledger.node.name)
                expected = None if newest is None else newest.version

    KubernetesStore.write = write  # type: ignore[method-assign]


def _restate() -> None:
    """Amounts are those that the record states."""

    def stated(request: Request, choice: Iterable[Grant], node: Node) -> tuple[Grant, ...]:  # noqa: ARG001
        return tuple(choice)

    for module in (allocation_record, validate):
        _replace(module, "restate", stated)
    _replace(adoption, "at_least", stated)


def _version() -> None:
    """A Binding does not say for which version of the pod it is."""
    original = service.send_binding

    async def send(ports: Ports, pod: PodRef, node: str, result: Result, version: str = "") -> None:  # noqa: ARG001
        await original(ports, pod, node, result)

    _replace(service, "send_binding", send)


def _touch() -> None:
    """Cards are released without a change of the pod."""

    async def is_unbound(self: PodWriter, allocation: Allocation, view: NodeView) -> bool:  # noqa: ARG001
        return True

    PodWriter.invalidate = is_unbound  # type: ignore[method-assign]


def _lost() -> None:
    """A ledger that was deleted is made again as if there had been none."""

    def forget(self: LedgerCache, node: str) -> None:
        pass

    LedgerCache.lose = forget  # type: ignore[method-assign]
    _replace(controller, "_is_other", lambda known, stored: False)  # noqa: ARG005


def _init() -> None:
    """Init containers have nothing."""
    original = usage._peak

    def peak(grants: Sequence[Grant]) -> tuple[int, int, int]:
        return original([grant for grant in grants if grant.phase is not Phase.INIT])

    _replace(usage, "_peak", peak)


def _claims() -> None:
    """The arbiter allows each choice of devices, and the reconciler adopts it."""

    async def unchecked(self: Committer, *options: ClaimOption) -> ClaimOption:  # noqa: ARG001
        return options[0]

    Committer.commit_claim = unchecked  # type: ignore[method-assign]


def _live_claim() -> None:
    """What a review says of a claim is not compared with the API server's."""

    def none(claim: Claim, live: ResourceClaim | None) -> None:  # noqa: ARG001
        return None

    _replace(claim_review, "contradiction", none)


def _mirrors_adopted() -> None:
    """A pod has what Volcano's mirror on it says."""
    original = adoption.adopt

    def adopt_mirror(pod: Pod, node: Node, dialects: Sequence[Dialect]) -> Allocation | None:
        found, texts = original(pod, node, dialects), annotations(pod)
        if found is None or found.dialect == VOLCANO or mirror_mark(VOLCANO) not in texts:
            return found
        with suppress(ValueError):
            rows = [each.split(",") for each in texts.get(ASSIGNED, "").split(":") if each]
            shares = [(card, int(memory) * MIB, int(compute)) for card, _, memory, compute in rows]
            return replace(found, grants=tuple(Grant("main", *share) for share in shares))
        return found

    _replace(node_reader, "adopt", adopt_mirror)


def _mirrors_unrepaired() -> None:
    """Mirrored records stay as others write them."""

    def none(*_: object) -> tuple[()]:
        return ()

    _replace(repair_plan, "unmirrored", none)


MUTANTS: dict[str, Callable[[], None]] = {
    "memory": _blind(_memory),
    "slots": _blind(_slots),
    "compute": _blind(_compute),
    "exclusive": _shares(lambda share: replace(share, exclusive=False)),
    **{rule: _without_term(field) for rule, (field, _) in MISSING.items()},
    "unknown": _shares(lambda share: replace(share, blocked=False)),
    "slices": _slices,
    "layouts": _mixed,
    "compare-and-swap": _compare_and_swap,
    "restate": _restate,
    "init": _init,
    "claims": _claims,
    "live claim": _live_claim,
    "version": _version,
    "touch": _touch,
    "lost": _lost,
    "mirrors adopted": _mirrors_adopted,
    "mirrors unrepaired": _mirrors_unrepaired,
}
"""By the rule that is missing, what replaces it."""
