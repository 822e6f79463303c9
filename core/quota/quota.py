"""The quota of one namespace: its limits, and the holds of pods against them.

A hold is made before the allocation is written, and dropped only when that allocation cannot be
in the ledger and cannot come any more: a sum of holds within the limits bounds the ledgers.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from core.ledger.node_ledger import NodeLedger
from core.quota.amounts import (
    NO_LIMITS,
    NOTHING,
    QuotaAmounts,
    QuotaLimits,
    amounts_of,
    format_cards,
    text,
    total,
)

HoldKey = tuple[str, str]
"""A pod's uid and a node's name: an attempt to bind the pod there."""


@dataclass(frozen=True, slots=True)
class QuotaHold:
    """What a pod may have on one node.

    Attributes:
        pod: ``namespace/name``, for people.
        number: the attempt that made or renewed it; a later one has a higher number. A commit
            is valid with a number that is above the fence of its node's ledger.
    """

    uid: str
    pod: str
    node: str
    amounts: QuotaAmounts
    number: int = 0

    @property
    def key(self) -> HoldKey:
        """The pod and the node."""
        return self.uid, self.node


@dataclass(frozen=True, slots=True)
class Shortage:
    """Why a hold is rejected.

    Attributes:
        resource: the first one that is short: ``cards``, ``memory`` or ``compute``.
        asked: how much of it the pod counts.
        used: how much of it the other pods count.
    """

    namespace: str
    resource: str
    asked: int
    used: int
    limit: int

    def text(self) -> str:
        """Say it as ``quota of namespace ml: memory 1 GiB short (23 GiB of 24 GiB used)``.

        The text of a pod that exceeds the limit by itself says that.
        """
        name, limit = self.resource, text(self.resource, self.limit)
        quota = f"quota of namespace {self.namespace}:"
        if self.asked > self.limit:
            of_what = "" if name == "cards" else f" of {name}"
            asked = f"{text(name, self.asked)}{of_what}"
            return f"{quota} the pod counts {asked}, and the limit is {limit}"
        short, used, limit = (
            format_cards(amount) if name == "cards" else text(name, amount)
            for amount in (self.used + self.asked - self.limit, self.used, self.limit)
        )
        return f"{quota} {name} {short} short ({used} of {limit} used)"


@dataclass(frozen=True, slots=True)
class Quota:
    """QuotaLimits and holds of one namespace. A value: every change gives a new one.

    Attributes:
        limits: what all pods together may have, by the ShareQuota.
        host_limits: what they may have by ResourceQuotas; never stored with the holds.
        holds: by key.
        sequence: the highest number so far.
        counted: whether the allocations that existed before the quota have holds; before that
            nothing may be held.
    """

    namespace: str
    limits: QuotaLimits = NO_LIMITS
    holds: Mapping[HoldKey, QuotaHold] = field(default_factory=lambda: MappingProxyType({}))
    sequence: int = 0
    counted: bool = False
    host_limits: QuotaLimits = NO_LIMITS

    @property
    def bounds(self) -> QuotaLimits:
        """All limits together: the lower one of each resource."""
        return self.limits.strictest(self.host_limits)

    def used(self, without: str = "") -> QuotaAmounts:
        """Return what all pods count, or all but one. A pod counts once, with its largest holds."""
        return total(
            amounts for uid, amounts in self._by_pod().items() if not without or uid != without
        )

    def of_pod(self, uid: str) -> QuotaAmounts:
        """Return what one pod counts; nothing where it has no hold."""
        return self._by_pod().get(uid, NOTHING)

    def shortage(
        self, uid: str, amounts: QuotaAmounts, more: QuotaAmounts = NOTHING
    ) -> Shortage | None:
        """Return why a pod may not have some amounts; None where it may.

        What the pod counts already it may have, whatever the limits are now.
        """
        own = self.of_pod(uid)
        wanted = own.most(amounts)
        if wanted == own and own != NOTHING:
            return None
        used = self.used(without=uid).plus(more)
        bounds = self.bounds
        asked = {name: amount for name, _, amount in bounds.with_amounts(wanted)}
        for name, limit, amount in bounds.with_amounts(used):
            if limit is not None and asked[name] and amount + asked[name] > limit:
                return Shortage(self.namespace, name, asked[name], amount, limit)
        return None

    def hold(self, hold: QuotaHold, above: int = 0) -> "Quota | Shortage":
        """Make or renew a hold, with a new number.

        Args:
            hold: its number is replaced; a renewed one counts the larger amounts of both.
            above: the number is above this too: the fence of the node's ledger.
        """
        return self.shortage(hold.uid, hold.amounts) or self.adopt(hold, above)

    def adopt(self, hold: QuotaHold, above: int = 0) -> "Quota":
        """Make or renew a hold whether it is within the limits or not."""
        number = max(self.sequence, above) + 1
        known = self.holds.get(hold.key)
        amounts = hold.amounts if known is None else hold.amounts.most(known.amounts)
        made = replace(hold, amounts=amounts, number=number)
        holds = MappingProxyType({**self.holds, hold.key: made})
        return replace(self, holds=holds, sequence=number)

    def begun(self) -> "Quota":
        """Return the quota after all existing allocations got holds; others may then hold some."""
        return replace(self, counted=True, sequence=self.sequence + 1)

    def settle(self, hold: QuotaHold, amounts: QuotaAmounts) -> "Quota":
        """Lower a hold to some amounts, or drop it where they are nothing.

        Itself where the hold was renewed meanwhile, or is gone.
        """
        known = self.holds.get(hold.key)
        if known is None or known.number != hold.number:
            return self
        rest = {key: each for key, each in self.holds.items() if key != hold.key}
        if amounts != NOTHING:
            rest[hold.key] = replace(known, amounts=amounts)
        return replace(self, holds=MappingProxyType(rest), sequence=self.sequence + 1)

    def _by_pod(self) -> dict[str, QuotaAmounts]:
        pods: dict[str, QuotaAmounts] = {}
        for hold in self.holds.values():
            pods[hold.uid] = pods.get(hold.uid, NOTHING).most(hold.amounts)
        return pods


def holds_of(ledger: NodeLedger) -> Iterable[QuotaHold]:
    """Yield what each pod has on one node, as holds without a number."""
    for uid, allocation in ledger.allocations.items():
        yield QuotaHold(uid, allocation.pod, ledger.node.name, amounts_of(allocation, ledger.node))
