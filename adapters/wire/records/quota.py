"""The object ``ShareQuota``: the limits of one namespace, and in its status what pods hold of them.

``configs/crd/sharequotas.yaml`` defines it. A namespace has at most one, named ``quota``, so that
one compare-and-swap of one object decides about every hold of the namespace.
"""

from collections.abc import Callable
from typing import Annotated

import msgspec

from adapters.wire import quantity
from adapters.wire.decode.decoder import Decoder, UnreadableError
from adapters.wire.kube import Amount, Metadata, Wire
from adapters.wire.records.allocation import Count, Number
from core.hardware.quantity import MIB, format_gib
from core.quota.amounts import CARD, QuotaAmounts, QuotaLimits, format_cards
from core.quota.quota import Quota, QuotaHold

KIND = "ShareQuota"
NAME = "quota"
"""The name of every ShareQuota."""

_MOST = 1 << 62


class QuotaRecordError(ValueError):
    """A ShareQuota that cannot be used: field, value and what is valid."""


class QuotaLimitsRecord(Wire, frozen=True, gc=False):
    """Quantities, as in a ResourceQuota; ``compute`` is percent of one card."""

    cards: Amount | None = None
    memory: Amount | None = None
    compute: Amount | None = None


class QuotaSpec(Wire, frozen=True, gc=False):
    """What the administrator writes."""

    limits: QuotaLimitsRecord = QuotaLimitsRecord()


class HoldRecord(Wire, frozen=True, gc=False):
    """A ``core.quota.quota.QuotaHold``; ``cards`` are thousandths."""

    uid: str
    pod: str
    node: str
    number: Count
    cards: Number = 0
    memory: Annotated[int, msgspec.Meta(ge=0, le=_MOST)] = 0
    compute: Number = 0


class QuotaUsedRecord(Wire, frozen=True, gc=False):
    """What a quota's pods use, as quantities for people and tools."""

    cards: str = "0"
    memory: str = "0"
    compute: Count = 0


class QuotaSummaryRecord(Wire, frozen=True, gc=False):
    """What a quota's pods use of its limits, in words for people, such as ``1.5 of 2``."""

    cards: str = ""
    memory: str = ""
    compute: str = ""


class QuotaStatus(Wire, frozen=True, gc=False):
    """What the service writes."""

    counted: bool = False
    sequence: Count = 0
    pods: Count = 0
    used: QuotaUsedRecord = QuotaUsedRecord()
    exceeded: tuple[str, ...] = ()
    summary: QuotaSummaryRecord = QuotaSummaryRecord()
    claims: tuple[HoldRecord, ...] = ()


class ShareQuotaObject(Wire, frozen=True, gc=False):
    """A ShareQuota with its limits and its status still encoded."""

    metadata: Metadata
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: msgspec.Raw = msgspec.Raw(b"{}")


_TYPE = {"apiVersion": "dragoman.dev/v1alpha1", "kind": KIND}

_SPEC = Decoder(QuotaSpec)
_STATUS = Decoder(QuotaStatus)


def read_quota(thing: ShareQuotaObject) -> Quota:
    """Return the quota of an object.

    Raises:
        QuotaRecordError: the name or a limit is not valid, or the status cannot be read.
    """
    namespace = thing.metadata.namespace or "default"
    if thing.metadata.name != NAME:
        raise QuotaRecordError(
            f"metadata.name: {thing.metadata.name!r}: a namespace has one ShareQuota, named {NAME}"
        )
    try:
        spec = _SPEC.decode(thing.spec)
        status = _STATUS.decode(thing.status)
    except UnreadableError as error:
        raise QuotaRecordError(f"ShareQuota {namespace}/{NAME} cannot be read: {error}") from error
    holds = (
        QuotaHold(r.uid, r.pod, r.node, QuotaAmounts(r.cards, r.memory, r.compute), r.number)
        for r in status.claims
    )
    return Quota(
        namespace,
        QuotaLimits(
            _limit("cards", spec.limits.cards, CARD),
            _limit("memory", spec.limits.memory),
            _limit("compute", spec.limits.compute),
        ),
        {hold.key: hold for hold in holds},
        status.sequence,
        status.counted,
    )


def write_new(namespace: str) -> bytes:
    """Return the body that creates a ShareQuota without limits."""
    labels = {"app.kubernetes.io/managed-by": "dragoman"}
    metadata = {"name": NAME, "namespace": namespace, "labels": labels}
    return msgspec.json.encode({**_TYPE, "metadata": metadata, "spec": {}})


def write_status(quota: Quota, version: str) -> bytes:
    """Return the body that replaces the status of the object that was read with a version."""
    metadata = {"name": NAME, "namespace": quota.namespace, "resourceVersion": version}
    return msgspec.json.encode({**_TYPE, "metadata": metadata, "status": status_of(quota)})


def status_of(quota: Quota) -> QuotaStatus:
    """Return the status of a quota."""
    used = quota.used()
    limits = quota.bounds
    return QuotaStatus(
        counted=quota.counted,
        sequence=quota.sequence,
        pods=len({hold.uid for hold in quota.holds.values()}),
        used=QuotaUsedRecord(
            format_cards(used.cards), quantity.format_binary(used.memory), used.compute
        ),
        exceeded=limits.exceeded(used),
        summary=QuotaSummaryRecord(
            _of(format_cards(used.cards), limits.cards, format_cards),
            _of(format_gib(used.memory), limits.memory, format_gib, " GiB"),
            _of(str(used.compute), limits.compute, str, "%"),
        ),
        claims=tuple(
            HoldRecord(
                hold.uid,
                hold.pod,
                hold.node,
                hold.number,
                hold.amounts.cards,
                hold.amounts.memory,
                hold.amounts.compute,
            )
            for hold in quota.holds.values()
        ),
    )


def _of(used: str, limit: int | None, form: Callable[[int], str], unit: str = "") -> str:
    return f"{used}{unit}" if limit is None else f"{used} of {form(limit)}{unit}"


def _limit(name: str, value: Amount | None, unit: int = 1) -> int | None:
    """Return a limit in thousandths of its unit where ``unit`` is 1000, else in whole numbers."""
    if value is None:
        return None
    field = f"spec.limits.{name}: {value!r}"
    try:
        amount = quantity.parse(str(value)) * unit
    except quantity.QuantityError as error:
        raise QuotaRecordError(f"{field}: must be a quantity, such as {_EXAMPLES[name]}") from error
    if amount.denominator != 1 or not 0 <= amount <= _MOST:
        raise QuotaRecordError(f"{field}: must be {_VALID[name]}, such as {_EXAMPLES[name]}")
    return amount.numerator


_EXAMPLES = {"cards": "2, 1.5 or 500m", "memory": "24Gi", "compute": "250"}
_VALID = {
    "cards": "0 or more, in thousandths at most",
    "memory": "a whole number of bytes, 0 or more",
    "compute": "a whole number of percent of one card, 0 or more",
}


def limited_amounts(quota: Quota) -> dict[str, dict[str, int | str]]:
    """Return used and limit of each limited resource, for people: cards, MiB, percent."""
    forms: dict[str, tuple[str, Callable[[int], int | str]]] = {
        "cards": ("cards", format_cards),
        "memory": ("memoryMiB", lambda amount: amount // MIB),
        "compute": ("compute", int),
    }
    found: dict[str, dict[str, int | str]] = {}
    for name, limit, amount in quota.bounds.with_amounts(quota.used()):
        key, form = forms[name]
        if limit is not None:
            found[key] = {"used": form(amount), "limit": form(limit)}
    return found
