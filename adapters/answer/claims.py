"""Where the devices are free that the ResourceClaims of a waiting pod request.

A choice of devices is judged by what decides about a scheduler's choice: the share that a request
means (``consumption``), the cards that it holds (``holders``), and the ledger. Of an expression
only the name of the driver is read. Where it says more, or a claim has constraints, a free device
may be excluded: then nodes fit at most.
"""

import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product

from adapters.accounting.claim_cache import ClaimCache, Published
from adapters.dialects.dra.claims import Claim
from adapters.dialects.dra.consumption import ConsumptionError, as_allocated
from adapters.dialects.dra.devices import DeviceKey, means_cards
from adapters.dialects.dra.holders import holding
from adapters.wire.dra import DeviceResult, ExactRequest, RequestedClaim
from adapters.wire.kube import Pod
from core.feasibility.inventory import Inventory
from core.ledger.node_ledger import LedgerError, NodeLedger
from core.ledger.usage import first_conflict, shares_of
from core.requests.decision import NodeReasons
from core.requests.reason import Cause, Obstacle, Reason, count_causes

STEP = 200
"""Devices that are tried before other calls run: at most about ten milliseconds."""

MOST = 32
"""Devices of a claim, at most.
Source: k8s.io/api v0.37.1 resource/v1/types.go, AllocationResultsMaxSize."""

WAYS = 64
"""Combinations of alternatives that are tried; where there are more, nodes fit at most."""

TRIES = 200
"""Devices that are tried on one node; where that is too few, the node fits at most."""

_DRIVER = re.compile(r"""\s*device\.driver\s*==\s*(?:"([^"\\]+)"|'([^'\\]+)')\s*""")

_NO_CLAIM = Cause.NO_DEVICES


@dataclass(frozen=True, slots=True)
class ClaimFit:
    """Where devices for a pod's claims are free.

    Attributes:
        requested: devices, by class and capacity.
        fitting: names of nodes.
        reasons: why others do not fit.
        is_sure: no expression and no constraint may exclude a device.
    """

    requested: Mapping[str, int]
    fitting: tuple[str, ...]
    reasons: NodeReasons
    is_sure: bool


@dataclass(frozen=True, slots=True)
class _Wanted:
    """One device of a claim, or all that its request means.

    ``driver`` is None where the class names none; ``is_sure`` as of ``ClaimFit``.
    """

    claim: RequestedClaim
    name: str
    request: ExactRequest
    driver: str | None
    is_sure: bool

    @property
    def is_all(self) -> bool:
        return self.request.allocation_mode == "All"

    def among(self, published: Sequence[Published]) -> Iterator[Published]:
        return (each for each in published if self.driver in (None, each[0].driver))


@dataclass(frozen=True, slots=True)
class _Choice:
    """The devices of a node that were chosen so far, and its ledger with them.

    ``used`` are devices that are no cards of the ledger and that no other claim can have.
    """

    ledger: NodeLedger
    used: frozenset[DeviceKey]
    results: tuple[tuple[RequestedClaim, DeviceResult], ...] = ()

    def plus(
        self, wanted: _Wanted, published: Published, known: ClaimCache
    ) -> "_Choice | Obstacle":
        """Return the choice with one more device, or why it cannot be had."""
        device, stated = published
        request, meta, node = wanted.request, wanted.claim.metadata, self.ledger.node
        if device.taint and not request.tolerations:
            return Obstacle(Cause.UNHEALTHY, detail=f"taint {device.taint}")
        result = DeviceResult(wanted.name, *device.key, request.admin_access)
        if request.admin_access:
            return self
        try:
            result = as_allocated(wanted.claim, result, stated)
        except ConsumptionError as error:
            return Obstacle(_NO_CLAIM, detail=str(error))
        results = (*self.results, (wanted.claim, result))
        own = tuple(each for claim, each in results if claim is wanted.claim)
        name = f"{meta.namespace or 'default'}/{meta.name}"
        claim = Claim(meta.uid or name, name, own, frozenset({node.name}))
        asked = holding(claim, node, known.devices)
        if asked is None:
            if device.key in self.used:
                return Obstacle(Cause.HELD_EXCLUSIVELY)
            used = self.used if device.is_shared else self.used | {device.key}
            return _Choice(self.ledger, used, results)
        if asked.unread is not None:
            return Obstacle(Cause.BLOCKED, detail=asked.unread)
        try:
            return _Choice(self.ledger.allocate(asked), self.used, results)
        except LedgerError as error:
            free, shares = self.ledger.release(asked.uid), shares_of(asked)
            found = (
                first_conflict(card, use, shares[card.uuid])
                for card, use in zip(node.cards, free.usages, strict=True)
                if card.uuid in shares
            )
            other = Obstacle(Cause.HELD_EXCLUSIVELY, detail=str(error))
            return next((each for each in found if each is not None), other)


def claim_fit(
    pod: Pod, known: ClaimCache, inventory: Inventory, names: Sequence[str]
) -> Generator[None, None, ClaimFit | None]:
    """Return where a pod's claims may have devices; None where they are of no cards.

    It pauses after every ``STEP`` of the devices.
    """
    found = known.wanted(pod)
    if found is None:
        return None
    claims, nodes, problem = found
    ways: list[tuple[_Wanted, ...]] = []
    try:
        options = [_options(claim, known) for claim in claims]
        ways = _combined(options)
        if any(len(way) > MOST * len(claims) for way in ways):
            problem = problem or f"requests more than the {MOST} devices that a claim can have"
    except KeyError as error:
        problem = problem or f"DeviceClass {error.args[0]} is not known"
    wanted = [each for way in ways for each in way]
    if not problem and all(_is_of_no_card(each, known) for each in wanted) and not nodes:
        return None
    taken = frozenset(
        (each.driver, each.pool, each.device)
        for held in known.all()
        for each in held.results
        if each.share_id is None
    )
    fitting: list[str] = []
    reasons: dict[str, Reason] = {}
    is_sure = True
    tried = 0
    for name in names:
        tried += 1
        reason = None
        if problem:
            reason = _reason(problem)
        elif nodes is not None and name not in nodes:
            reason = Reason(
                "", 0, cause=Cause.SELECTOR, detail="its ResourceClaim has devices elsewhere"
            )
        elif ways:
            ledger = inventory.get(name)
            published = known.published(name)
            if ledger is None or not published:
                reason = Reason("", 0, cause=Cause.NO_CARDS)
            else:
                search = _Search(known, published)
                for way in ways:
                    if search.fits(_Choice(ledger, taken), way):
                        is_sure &= search.is_sure and all(each.is_sure for each in way)
                        break
                else:
                    if len(ways) > WAYS:
                        is_sure = False
                    else:
                        reason = search.reason(_Choice(ledger, taken), ways[0])
                tried += TRIES - search.left
        if reason is None:
            fitting.append(name)
        else:
            reasons[name] = reason
        if tried >= STEP:
            tried = 0
            yield
    return ClaimFit(_devices(claims), tuple(fitting), NodeReasons.of(reasons), is_sure)


class _Search:
    """Tries the devices of one node.

    Attributes:
        is_sure: that no choice was left out.
        left: how many devices may still be tried.
    """

    def __init__(self, known: ClaimCache, published: Sequence[Published]) -> None:
        self.is_sure = True
        self._known = known
        self._published = published
        self.left = TRIES

    def fits(self, choice: _Choice, way: Sequence[_Wanted], start: int = 0) -> bool:
        """Return whether all devices of a way can be chosen together."""
        if not way:
            return True
        wanted, rest = way[0], way[1:]
        devices = [*wanted.among(self._published)]
        if wanted.is_all and wanted.is_sure:
            if self.left < len(devices):
                self.is_sure = False
                return True
            self.left -= len(devices)
            for each in devices:
                more = choice.plus(wanted, each, self._known)
                if isinstance(more, Obstacle):
                    return False
                choice = more
            return bool(devices) and self.fits(choice, rest)
        for at in range(start, len(devices)):
            if not self.left:
                self.is_sure = False
                return True
            self.left -= 1
            more = choice.plus(wanted, devices[at], self._known)
            # Devices of one request are chosen in their order: a shared one can come again.
            again = at + (not devices[at][0].is_shared) if rest and rest[0] is wanted else 0
            if isinstance(more, _Choice) and self.fits(more, rest, again):
                return True
        return False

    def reason(self, choice: _Choice, way: Sequence[_Wanted]) -> Reason:
        """Return why a way does not fit, by the first of its requests that has no device."""
        free = total = 0
        for wanted in {id(each): each for each in way}.values():
            devices = [*wanted.among(self._published)]
            tried = [choice.plus(wanted, each, self._known) for each in devices]
            obstacles = [each for each in tried if isinstance(each, Obstacle)]
            free, total = len(devices) - len(obstacles), len(devices)
            if not devices:
                return _reason(f"no device of {wanted.request.device_class_name}")
            if not free or wanted.is_all:
                return Reason("", total, len(way), counts=count_causes(obstacles))
        short = f"{free} of {total} devices free, {len(way)} requested"
        return Reason("", total, len(way), cause=Cause.TOO_FEW_FIT, detail=short)


def _options(claim: RequestedClaim, known: ClaimCache) -> list[tuple[_Wanted, ...]]:
    """Return the ways to meet a claim, the first one first.

    Raises:
        KeyError: a class is not known.
    """
    devices = claim.spec.devices
    found: list[list[tuple[_Wanted, ...]]] = []
    for each in devices.requests or ():
        alternatives = [(f"{each.name}/{one.name}", one) for one in each.first_available or ()]
        requests = alternatives if each.exactly is None else [(each.name, each.exactly)]
        options: list[tuple[_Wanted, ...]] = []
        for name, request in requests:
            stated = known.device_class(request.device_class_name)
            if stated is None:
                raise KeyError(request.device_class_name)
            selectors = (*(stated.spec.selectors or ()), *(request.selectors or ()))
            texts = ["" if one.cel is None else one.cel.expression for one in selectors]
            parts = [
                part
                for text in texts
                for part in (text.split("&&") if "||" not in text and "?" not in text else (text,))
            ]
            drivers = [match[1] or match[2] for part in parts if (match := _DRIVER.fullmatch(part))]
            is_sure = len(drivers) == len(parts) and not devices.constraints
            driver = drivers[0] if drivers else None
            wanted = _Wanted(claim, name, request, driver, is_sure)
            count = 1 if wanted.is_all else min(request.count or 1, MOST + 1)
            options.append((wanted,) * count)
        found.append(options)
    return _combined(found)


def _combined(options: Sequence[Sequence[tuple[_Wanted, ...]]]) -> list[tuple[_Wanted, ...]]:
    """Return combinations of options, one more than ``WAYS`` at most."""
    return [sum(way, ()) for way in islice(product(*options), WAYS + 1)]


def _is_of_no_card(wanted: _Wanted, known: ClaimCache) -> bool:
    """Whether no device that a request may mean is a card, or a part of one."""
    if wanted.driver is not None and means_cards(wanted.driver):
        return False
    return not any(
        device.card and wanted.driver in (None, device.driver) for device in known.devices.all()
    )


def _reason(text: str) -> Reason:
    return Reason("", 0, cause=_NO_CLAIM, detail=text)


def _devices(claims: Sequence[RequestedClaim]) -> dict[str, int]:
    """Return how many devices claims request, by class and capacity."""
    found: dict[str, int] = {}
    for claim in claims:
        for request in claim.spec.devices.requests or ():
            one = request.exactly or next(iter(request.first_available or ()), ExactRequest())
            is_all = one.allocation_mode == "All"
            amounts = (one.capacity and one.capacity.requests) or {}
            each = ", ".join(f"{amount} of {name}" for name, amount in amounts.items())
            name = f"{one.device_class_name}{each and f': {each}'}{' (all)' if is_all else ''}"
            name += "" if request.exactly else ", or another"
            found[name] = found.get(name, 0) + (1 if is_all else one.count or 1)
    return found
