"""Where the devices are free that the ResourceClaims of a waiting pod request.

A choice of devices is judged by what decides about a scheduler's choice: the share that a request
means (``consumption``), the cards that it holds (``holders``), the ledger and the quota. Where more
may exclude a device, nodes fit at most: expressions other than equalities of the driver and of
attributes that the device has, constraints, tolerations, devices that are no cards.
"""

import re
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import islice

from adapters.accounting.claim_cache import ClaimCache, Published
from adapters.accounting.pod_requests import PodRequest
from adapters.answer.answer import ClaimFit, ClusterFacts
from adapters.dialects.dra import DRA
from adapters.dialects.dra.claims import Claim
from adapters.dialects.dra.consumption import ConsumptionError, as_allocated, others
from adapters.dialects.dra.devices import DeviceKey, PublishedDevice
from adapters.dialects.dra.holders import holding
from adapters.dialects.koordinator.keys import INFO as KOORDINATOR
from adapters.dialects.matching import amounts_of as dialect_amounts
from adapters.dialects.volcano.keys import INFO as VOLCANO
from adapters.wire import dra
from adapters.wire.kube import KubeNode, Pod, pod_ref
from core.hardware.node import Node
from core.ledger.node_ledger import NodeLedger
from core.ledger.usage import first_conflict, shares_of
from core.quota.amounts import NOTHING, QuotaAmounts, amounts_of
from core.requests.decision import NodeReasons
from core.requests.grant import Allocation
from core.requests.reason import Cause, Obstacle, Reason, count_causes

STEP = 200
"""Devices that are tried before other calls run: with those of one more node about 25 ms."""

CLAIMS = 32
"""Claims of a pod that are read."""

# k8s.io/api v0.37.1 resource/v1/types.go, AllocationResultsMaxSize.
RESULTS = 32
"""Devices that one claim can have."""

LONGEST = 500
"""Characters of an expression that is read."""

TRIES = 200
"""Devices that are tried on one node; where that is too few, the node fits at most."""

OF_CLAIM = "pod of a claim"
"""Stands for the dialect of a pod that has what its claims have."""

_TEXT = r"""("[^"]*"|'[^']*')"""

_DRIVER = re.compile(rf"\s*device\.driver\s*==\s*{_TEXT}\s*")

_ATTRIBUTE = re.compile(rf"\s*device\.attributes\[\s*{_TEXT}\s*\]\.(\w+)\s*==\s*{_TEXT}\s*")

_TOKEN = re.compile(rf"{_TEXT}|&&|\|\||[?()\[\]{{}}]")


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Devices of a claim: all that its request means where ``count`` is None.

    Attributes:
        driver: None where nothing names one.
        attributes: domain, name and text that each device must have.
        is_counted: it may mean cards, and none that is of no certain node.
        is_sure: as of ``ClaimFit``.
    """

    claim: dra.RequestedClaim
    name: str
    request: dra.ExactRequest
    count: int | None
    driver: str | None
    attributes: tuple[tuple[str, str, str], ...]
    is_counted: bool
    is_sure: bool

    def suits(self, device: PublishedDevice) -> bool | None:
        """Return whether the request means a device; None where that is not sure.

        An attribute that a device lacks is an error to its scheduler.
        """
        if self.driver not in (None, device.driver):
            return False
        if not self.attributes:
            return True
        found = [
            (device.texts.get(name if domain == device.driver else f"{domain}/{name}"), text)
            for domain, name, text in self.attributes
        ]
        if device.card and any(has not in (None, text) for has, text in found):
            return False
        return True if device.card and all(has is not None for has, _ in found) else None


@dataclass(frozen=True, slots=True)
class Requested:
    """What the claims of a waiting pod request.

    Attributes:
        requests: of all claims without devices, each with its alternatives.
        nodes: where claims with devices have them; None for anywhere.
        problem: why it is not known what some request; empty where it is.
        is_whole: no claim was left out.
    """

    requests: tuple[tuple[_Wanted, ...], ...]
    nodes: frozenset[str] | None
    problem: str
    is_whole: bool

    @property
    def devices(self) -> Mapping[str, int]:
        """How many devices, by class and capacity."""
        found: dict[str, int] = {}
        for wanted, *alternatives in self.requests:
            one = wanted.request
            amounts = (one.capacity and one.capacity.requests) or {}
            each = ", ".join(f"{amount} of {name}" for name, amount in amounts.items())
            is_all = one.allocation_mode == "All"
            name = f"{one.device_class_name}{each and f': {each}'}{' (all)' if is_all else ''}"
            name += ", or another" if alternatives else ""
            found[name] = found.get(name, 0) + (wanted.count or 1)
        return found


def requested(pod: Pod, known: ClaimCache, *made: dra.RequestedClaim) -> Requested | None:
    """Return what a pod's claims request, and those made for it; None where none is of cards."""
    entries, devices = (*made, *(pod.spec.resource_claims or ())), known.devices
    if not (entries and devices.of_cards and known.classes):
        return None
    requests: list[tuple[_Wanted, ...]] = []
    nodes: frozenset[str] | None = None
    problem, is_ours = "", False
    for each in islice((*made, *known.wanted(pod)), CLAIMS):
        if isinstance(each, Claim):
            is_ours |= each.unread is not None
            is_ours |= any(devices.may_be_cards(one.driver) for one in each.results)
            if each.nodes is not None:
                nodes = each.nodes if nodes is None else nodes & each.nodes
            continue
        of_claim = each if isinstance(each, str) else _requests(each, known)
        if isinstance(of_claim, str):
            problem = problem or of_claim
        else:
            requests += of_claim
    is_ours |= any(devices.may_be_cards(one.driver) for options in requests for one in options)
    is_whole = len(entries) <= CLAIMS
    return Requested(tuple(requests), nodes, problem, is_whole) if is_ours or problem else None


def requested_by_class(pod: Pod, amounts: Mapping[str, int], known: ClaimCache) -> Requested | None:
    """Return what a pod's claims request, with the one that kube-scheduler makes of its resources.

    It makes one for nodes that advertise none of them, where DeviceClasses name all; else None.
    Source: kubernetes 1.37 plugins/dynamicresources/extendeddynamicresources.go; of classes of one
    name the newest counts (dynamic-resource-allocation, extendedresourcecache.go).
    """
    newest = sorted(known.classes.values(), key=lambda each: each.metadata.name, reverse=True)
    newest.sort(key=lambda each: each.metadata.creation_timestamp or "")
    names = {each.spec.extended_resource_name: each.metadata.name for each in newest}
    is_other = pod.spec.scheduler_name in (VOLCANO.scheduler, KOORDINATOR.scheduler)
    if pod.spec.node_name or is_other or not amounts or not amounts.keys() <= names.keys():
        return None
    requests = tuple(
        dra.ClaimRequest(resource, dra.ExactRequest(names[resource], count=amount))
        for resource, amount in amounts.items()
    )
    spec = dra.ClaimSpec(dra.ClaimDevices(requests))
    return requested(pod, known, dra.RequestedClaim(pod.metadata, spec=spec))


def nodes_by_class(
    amounts: Mapping[str, int],
    known: ClaimCache,
    nodes: Mapping[str, KubeNode],
    names: Iterable[str],
) -> dict[str, None]:
    """Return the nodes, in order, for which a scheduler makes that claim and chooses devices."""

    def advertises(name: str) -> bool:
        stated = nodes[name].status.allocatable or {}
        return any(str(stated.get(each, "0")) != "0" for each in amounts)

    published = filter(known.devices.of_node, filter(nodes.__contains__, names))
    return dict.fromkeys(name for name in published if not advertises(name))


def requested_of(pod: Pod, found: PodRequest | None, known: ClaimCache) -> Requested | None:
    """Return what a pod requests of cards, if it does so by claims alone; None where it does not.

    They are its own, or one that is made of its resources.

    Raises:
        DialectError: the request is invalid.
    """
    if found is None:
        return requested(pod, known)
    if pod.spec.resource_claims:
        return None
    return requested_by_class(pod, dialect_amounts(pod, found.request), known)


def with_pods_of_claims(ledger: NodeLedger, facts: ClusterFacts, waiting: Pod) -> NodeLedger:
    """Return the ledger with the claims that one of its pods has, and no other, as that pod's.

    Its end frees them together: Kubernetes deletes or deallocates them. What the waiting pod names
    is not freed for it.
    """
    claims = facts.claims
    named = [*claims.wanted(waiting)]
    for pod in facts.pods_on(ledger.node.name):
        ref = pod_ref(pod)
        own = (each for each in claims.of_pod(ref.uid) if each not in named)
        alone = (each.uid for each in own if claims.consumers(each.uid) == {ref})
        known = (ledger.allocations[uid] for uid in alone if uid in ledger.allocations)
        held = [each for each in known if each.dialect == DRA and each.release_by is None]
        if held and ref.uid not in ledger.allocations:
            ledger = ledger.release(*(each.uid for each in held))
            whole = replace(
                held[0],
                uid=ref.uid,
                pod=str(ref),
                dialect=OF_CLAIM,
                grants=tuple(grant for each in held for grant in each.grants),
                priority=pod.spec.priority or 0,
                unread=next((each.unread for each in held if each.unread), None),
                blocked=frozenset[str]().union(*(each.blocked for each in held)),
            )
            ledger = ledger.adopt(whole)
    return ledger


def held_if_free(
    asked: Requested | None, facts: ClusterFacts, pod: Pod, ledger: NodeLedger
) -> tuple[Allocation, ...] | Reason:
    """Return what each claim of a pod would hold of a node's cards, if it is sure of them.

    The ledger may be one of ``with_pods_of_claims``.
    """
    known, name = facts.claims, ledger.node.name
    no, published = Reason(name, 0), known.published(name)
    if asked is None or asked.problem or not (asked.is_whole and asked.requests and published):
        return no
    if asked.nodes is not None and name not in asked.nodes:
        return no
    search = _Search(known, published)
    found = search.chosen(ledger, asked.requests)
    if found is None or not search.is_sure or facts.over_quota(pod_ref(pod), _added(ledger, found)):
        return no
    # The scheduler may choose a device that a share has, and sees none of these. The arbiter then
    # writes another one into the claim where all are as good.
    if any(each.dialect not in (DRA, OF_CLAIM) for each in ledger.allocations.values()):
        (wanted, *alternatives), *more = asked.requests
        first, *rest = (each.key for each, _ in search.among(wanted))
        slices = known.pool(first[0], first[1], (name,))
        result = dra.DeviceResult(wanted.name, *first)
        like = others(wanted.claim, (result,), slices, known.classes)
        if alternatives or more or not {*rest} <= {(*first[:2], one) for one in like}:
            return no
    held: dict[str, Allocation] = {}
    for uid, each in found.allocations.items():
        if uid not in ledger.allocations:
            own = uid.partition("/")[0]
            before = held[own].grants if own in held else ()
            held[own] = replace(each, uid=own, grants=(*before, *each.grants), devices="")
    return tuple(held.values())


def _requests(claim: dra.RequestedClaim, known: ClaimCache) -> list[tuple[_Wanted, ...]] | str:
    """Return the requests of a claim, each with its alternatives, or why they cannot be met."""
    spec, devices = claim.spec.devices, known.devices
    found: list[tuple[_Wanted, ...]] = []
    for each in spec.requests or ():
        alternatives = [(f"{each.name}/{one.name}", one) for one in each.first_available or ()]
        options: list[_Wanted] = []
        for name, one in alternatives if each.exactly is None else [(each.name, each.exactly)]:
            stated = known.classes.get(one.device_class_name)
            if stated is None:
                return f"DeviceClass {one.device_class_name} is not known"
            selectors = (*(stated.spec.selectors or ()), *(one.selectors or ()))
            parts = [
                part
                for selector in selectors
                for part in _conjuncts("" if selector.cel is None else selector.cel.expression)
            ]
            drivers = [match[1][1:-1] for part in parts if (match := _DRIVER.fullmatch(part))]
            attributes = tuple(
                (match[1][1:-1], match[2], match[3][1:-1])
                for part in parts
                if (match := _ATTRIBUTE.fullmatch(part))
            )
            is_sure = len(drivers) + len(attributes) == len(parts) and len({*drivers}) < 2
            is_sure &= not spec.constraints and not one.tolerations
            driver = drivers[0] if drivers else None
            # All, where an expression may exclude some, may be one.
            is_all = one.allocation_mode == "All" and is_sure
            count = None if is_all else max(1, one.count or 1)
            is_counted = devices.may_be_cards(driver) and not devices.are_anywhere(driver)
            options.append(
                _Wanted(claim, name, one, count, driver, attributes, is_counted, is_sure)
            )
        if options:
            found.append(tuple(options))
    if sum(min(one.count or 1 for one in options) for options in found) > RESULTS:
        return f"requests more than the {RESULTS} devices that a claim can have"
    return found


def _conjuncts(text: str) -> list[str]:
    """Return the parts of an expression that hold together; all of it where that is not sure."""
    if len(text) > LONGEST or any(each in text for each in ('"""', "'''", "//", "\\")):
        return [""]
    parts, depth, begin = list[str](), 0, 0
    for token in _TOKEN.finditer(text):
        depth += (token[0] in "([{") - (token[0] in ")]}")
        if depth == 0 and token[0] in {"||", "?"}:
            return [text]
        if depth == 0 and token[0] == "&&":
            parts.append(text[begin : token.start()])
            begin = token.end()
    return [*parts, text[begin:]]


def claim_fit(
    pod: Pod, asked: Requested, facts: ClusterFacts, names: Sequence[str]
) -> Generator[None, None, ClaimFit]:
    """Return where a pod's claims may have devices; it pauses after every ``STEP`` of them."""
    fitting: list[str] = []
    reasons: dict[str, Reason] = {}
    is_sure, tried = asked.is_whole, 0
    for name in names:
        tried += 1
        reason = None
        ledger = facts.inventory.get(name)
        if asked.problem:
            reason = _reason(asked.problem)
        elif asked.nodes is not None and name not in asked.nodes:
            reason = _reason("its ResourceClaim has devices elsewhere", Cause.SELECTOR)
        elif ledger is None or not (published := facts.claims.published(name)):
            reason = Reason("", 0, cause=Cause.NO_CARDS)
        else:
            search = _Search(facts.claims, published)
            found = search.chosen(ledger, asked.requests)
            tried += TRIES - search.left
            if found is None:
                reason = search.reason(ledger, asked.requests)
            elif short := facts.over_quota(pod_ref(pod), _added(ledger, found)):
                reason = _reason(short, Cause.QUOTA)
            else:
                is_sure &= search.is_sure
        if reason is None:
            fitting.append(name)
        else:
            reasons[name] = reason
        if tried >= STEP:
            tried = 0
            yield
    devices = asked.devices or {"ResourceClaim": len(pod.spec.resource_claims or ())}
    return ClaimFit(devices, tuple(fitting), NodeReasons.of(reasons), is_sure)


class _Search:
    """Tries the devices of one node.

    Attributes:
        is_sure: as of ``ClaimFit``.
        left: how many devices may still be tried.
    """

    def __init__(self, known: ClaimCache, published: Sequence[Published]) -> None:
        self.is_sure = True
        self.left = TRIES
        self._known = known
        self._published = published
        self._shares: dict[tuple[int, DeviceKey], Allocation | str | None] = {}

    def chosen(
        self, ledger: NodeLedger, requests: Sequence[tuple[_Wanted, ...]]
    ) -> NodeLedger | None:
        """Return the ledger with devices for all requests; None where they are not free."""
        if not requests:
            return ledger
        for wanted in requests[0]:
            devices = self.among(wanted)
            is_clear = all(wanted.suits(each) for each, _ in devices)
            self.is_sure &= is_clear
            count = wanted.count or (len(devices) if is_clear else 1)
            found = self._with(ledger, wanted, devices, count, requests[1:]) if count else None
            if found is not None:
                return found
        return None

    def _with(
        self,
        ledger: NodeLedger,
        wanted: _Wanted,
        devices: Sequence[Published],
        count: int,
        rest: Sequence[tuple[_Wanted, ...]],
    ) -> NodeLedger | None:
        """Return the ledger with some of the devices for one request, and with the rest."""
        if not count:
            return self.chosen(ledger, rest)
        if not wanted.is_counted:
            devices = ()
        if self.left < max(1, len(devices)):
            self.is_sure = False
            return ledger
        self.left -= max(1, len(devices))
        self.is_sure &= wanted.is_sure and wanted.is_counted
        if not wanted.is_counted:
            return self.chosen(ledger, rest)
        tried = [(each, self._plus(ledger, wanted, each)) for each in devices]
        # What a device cannot have now, it cannot have beside more.
        fitting = [(each, more) for each, more in tried if isinstance(more, NodeLedger)]
        if len(fitting) < count and (
            wanted.count is None or not any(each[0].is_shared for each, _ in fitting)
        ):
            return None
        # Devices of one request are chosen in their order: a shared one can come again.
        for at, (each, more) in enumerate(fitting[:1] if wanted.count is None else fitting):
            again = at + (wanted.count is None or not each[0].is_shared)
            further = [one for one, _ in fitting[again:]]
            found = self._with(more, wanted, further, count - 1, rest)
            if found is not None:
                return found
        return None

    def among(self, wanted: _Wanted) -> list[Published]:
        """Return the devices that a request may mean."""
        return [each for each in self._published if wanted.suits(each[0]) is not False]

    def _plus(
        self, ledger: NodeLedger, wanted: _Wanted, published: Published
    ) -> NodeLedger | Obstacle:
        """Return the ledger with one more device, or why it cannot be had."""
        device = published[0]
        request, node = wanted.request, ledger.node
        taint = device.taint or self._known.rule_on(device.key)
        if taint and not request.tolerations:
            return Obstacle(Cause.UNHEALTHY, detail=f"taint {taint}")
        if request.admin_access:
            return ledger
        asked = self._share(wanted, published, node)
        if isinstance(asked, str):
            return Obstacle(Cause.NO_DEVICES, detail=asked)
        if asked is None:
            self.is_sure = False
            return ledger
        if asked.unread is not None:
            return Obstacle(Cause.BLOCKED, detail=asked.unread)
        asked = replace(asked, uid=f"{asked.uid}/{len(ledger.allocations)}")
        shares = shares_of(asked)
        for card, use in zip(node.cards, ledger.usages, strict=True):
            obstacle = first_conflict(card, use, shares[card.uuid]) if card.uuid in shares else None
            if obstacle is not None:
                return obstacle
        return ledger.allocate(asked)

    def _share(self, wanted: _Wanted, published: Published, node: Node) -> Allocation | str | None:
        """Return what a claim with a device holds of the node's cards, or why it cannot have it."""
        device, stated = published
        key = id(wanted), device.key
        if key not in self._shares:
            try:
                result = dra.DeviceResult(wanted.name, *device.key)
                result = as_allocated(wanted.claim, result, stated)
                about = wanted.claim.metadata
                name = f"{about.namespace or 'default'}/{about.name}"
                claim = Claim(about.uid, name, (result,), frozenset({node.name}))
                self._shares[key] = holding(claim, node, self._known.devices)
            except ConsumptionError as error:
                self._shares[key] = str(error)
        return self._shares[key]

    def reason(self, ledger: NodeLedger, requests: Sequence[tuple[_Wanted, ...]]) -> Reason:
        """Return why requests do not fit, by the first that has no device."""
        free = total = 0
        asked = sum(options[0].count or len(self.among(options[0])) for options in requests)
        for wanted in (options[0] for options in requests[:CLAIMS]):
            devices = self.among(wanted)
            tried = [self._plus(ledger, wanted, each) for each in devices[:TRIES]]
            obstacles = [each for each in tried if isinstance(each, Obstacle)]
            free, total = len(devices) - len(obstacles), len(devices)
            if not devices:
                return _reason(f"no device of {wanted.request.device_class_name}")
            if not free or (wanted.count is None and obstacles):
                return Reason("", total, asked, counts=count_causes(obstacles))
        short = f"{free} of {total} devices free, {asked} requested"
        return _reason(short, Cause.TOO_FEW_FIT)


def _added(ledger: NodeLedger, found: NodeLedger) -> QuotaAmounts:
    """Return what chosen devices count against a quota."""
    held = found.allocations.items()
    added = [amounts_of(one, ledger.node) for uid, one in held if uid not in ledger.allocations]
    return reduce(QuotaAmounts.plus, added, NOTHING)


def _reason(text: str, cause: Cause = Cause.NO_DEVICES) -> Reason:
    return Reason("", 0, cause=cause, detail=text)
