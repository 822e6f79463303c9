"""The metrics of the service but for those of cards, those of quotas, and the text of all.

The text is plain, or one gzip stream that is composed of cached pieces. Deflate lets streams be
joined where each ends in a full flush (RFC 1951, section 3.2.4; zlib.h, ``Z_FULL_FLUSH``), so that
a piece that has not changed is not compressed again. The result is one gzip member (RFC 1952),
which every client reads.
"""

import zlib
from asyncio import to_thread
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from importlib.metadata import version
from platform import python_version
from struct import pack
from typing import NamedTuple

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from adapters.service.decide.ports import DecisionRecord
from adapters.service.decide.state.quotas import Quotas
from core.hardware.quantity import MIB
from core.quota.amounts import CARD

_BUCKETS = (0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
"""Seconds. By default kube-scheduler times out after 5, vc-scheduler after 1."""


class Metrics:
    """All metrics of one process. Children are cached: a lookup costs a third of a microsecond.

    Attributes:
        registry: takes the metrics of other modules too.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        counter = partial(Counter, registry=self.registry)
        gauge = partial(Gauge, registry=self.registry)
        decisions = counter(
            "dragoman_decisions",
            "Decisions by dialect, endpoint, result and the reason of a rejection.",
            ["dialect", "verb", "result", "reason"],
        )
        calls = Histogram(
            "dragoman_call_seconds",
            "Time from the end of the request to the response.",
            ["verb"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        answers = counter(
            "dragoman_calls",
            "HTTP requests by endpoint and status code; 0 = client disconnected.",
            ["verb", "status"],
        )
        sizes = counter(
            "dragoman_call_bytes",
            "Bytes of request bodies; vc-scheduler sends a whole node with each request.",
            ["verb"],
        )
        self._decision, self._call = cache(decisions.labels), cache(calls.labels)
        self._answer, self._size = cache(answers.labels), cache(sizes.labels)
        self._refused = counter(
            "dragoman_http_refused",
            "HTTP requests and connections that a limit of the port refused, by reason.",
            ["reason"],
        )
        self._conflicts = counter(
            "dragoman_ledger_conflicts",
            "Ledger writes rejected because the resourceVersion had changed.",
        )
        self._staleness = gauge(
            "dragoman_watch_staleness_seconds", "Time since a watch was last up to date.", ["watch"]
        )
        self._unreadable = gauge(
            "dragoman_objects_unreadable",
            "Objects of the API server that cannot be decoded, by kind; what they may use counts as"
            " in use.",
            ["kind"],
        )
        ProcessCollector(registry=self.registry)
        Info("dragoman_build", "Version of Dragoman and of Python.", registry=self.registry).info(
            {"version": version("dragoman"), "python": python_version()}
        )

    def decided(self, decided: DecisionRecord) -> None:
        """Count a decision."""
        result, reason = decided.outcome.value, decided.cause
        self._decision(decided.dialect, decided.verb, result, reason).inc()

    def conflict(self) -> None:
        """Count a ledger write that lost a race."""
        self._conflicts.inc()

    def called(self, verb: str, status: int, seconds: float, size: int = 0) -> None:
        """Count a request."""
        self._call(verb).observe(seconds)
        self._size(verb).inc(size)
        self._answer(verb, str(status)).inc()

    def refused(self, reason: str) -> None:
        """Count a request or a connection that a limit refused."""
        self._refused.labels(reason).inc()

    def watch(self, name: str, staleness: Callable[[], float]) -> None:
        """Export the staleness of a watch, in seconds; computed at each scrape."""
        self._staleness.labels(name).set_function(staleness)

    def unreadable(self, kind: str, count: Callable[[], float]) -> None:
        """Export how many objects of a kind cannot be decoded; computed at each scrape."""
        self._unreadable.labels(kind).set_function(count)

    def gauge(self, name: str, help_: str, value: Callable[[], float]) -> None:
        """Export a number; computed at each scrape."""
        Gauge(name, help_, registry=self.registry).set_function(value)

    def text(self) -> bytes:
        """Return all metrics in the Prometheus text format."""
        return generate_latest(self.registry)


class QuotaMetrics(Collector):
    """Limits of namespaces, and what counts against them; cards in cards, memory in bytes."""

    def __init__(self, quotas: Quotas) -> None:
        self._quotas = quotas

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the gauges as of now."""
        limits = GaugeMetricFamily(
            "dragoman_quota_limit",
            "Limit of a namespace: cards, memory in bytes, compute in percent of one card.",
            labels=("namespace", "resource"),
        )
        used = GaugeMetricFamily(
            "dragoman_quota_used",
            "What the pods of a namespace with a quota count, in the units of the limit.",
            labels=("namespace", "resource"),
        )
        for namespace, stored in sorted(self._quotas.all().items()):
            quota = stored.quota
            for name, limit, amount in quota.bounds.with_amounts(quota.used()):
                unit = CARD if name == "cards" else 1
                if limit is not None:
                    limits.add_metric((namespace, name), limit / unit)
                used.add_metric((namespace, name), amount / unit)
        yield limits
        yield used


class PeerMetrics(Collector):
    """Quotas and the version under HAMi's names; memory in MiB, compute in percent.

    Source: HAMi v2.11.0 cmd/scheduler/metrics.go, pkg/metrics/build_info.go.
    """

    _NAMES: Mapping[str, tuple[str, int]] = {
        "memory": ("nvidia.com/gpumem", MIB),
        "compute": ("nvidia.com/gpucores", 1),
    }

    def __init__(self, quotas: Quotas) -> None:
        self._quotas = quotas

    def collect(self) -> Iterator[Metric]:
        """Yield the gauges as of now."""
        said, names = "As HAMi names it.", ("zone", "namespace", "quota_name")
        limits = GaugeMetricFamily("hami_resource_quota_limit", said, labels=names)
        used = GaugeMetricFamily("hami_resource_quota_used", said, labels=(*names, "limit"))
        for namespace, stored in sorted(self._quotas.all().items()):
            for name, limit, amount in stored.quota.bounds.with_amounts(stored.quota.used()):
                if limit is not None and name in self._NAMES:
                    theirs, unit = self._NAMES[name]
                    labels = ("vGPU", namespace, theirs)
                    limits.add_metric(labels, limit // unit)
                    used.add_metric((*labels, str(limit // unit)), amount // unit)
        yield limits
        yield used
        yield InfoMetricFamily("hami_build", said, {"version": version("dragoman")})


NODES = 64
"""Nodes whose lines of one family are compressed together: about 60 KB, two windows of deflate."""

_LEVEL = 1
_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x04\xff"
_END = b"\x03\x00"
"""The last block of a deflate stream, empty."""


class FamilyText(NamedTuple):
    """All samples of one name.

    Attributes:
        head: its HELP and TYPE lines.
        lines: by node; those of a node that has not changed are the same object as before.
    """

    head: bytes
    lines: Sequence[bytes]


Piece = tuple[bytes, ...]
"""A part of the text whose compressed form is kept."""


def plain(first: bytes, families: Sequence[FamilyText]) -> bytes:
    """Return the text of other metrics, and after it that of the families."""
    return b"".join([first, *(part for piece in _pieces(families) for part in piece)])


class Compressor:
    """Compresses an exposition; keeps the pieces of the last one."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[Piece, bytes]] = {}

    async def compress(self, first: bytes, families: Sequence[FamilyText]) -> bytes:
        """Return the same text as gzip; the work is done on another thread."""
        pieces = [*_pieces(families)]

        def work() -> bytes:
            check, size = zlib.crc32(first), len(first)
            kept: dict[int, tuple[Piece, bytes]] = {}
            for place, piece in enumerate(pieces):
                was = self._kept.get(place)
                # Tuples compare their items by identity first: equal pieces cost next to nothing.
                kept[place] = was if was and was[0] == piece else (piece, _deflated(piece))
                for part in piece:
                    check = zlib.crc32(part, check)
                    size += len(part)
            self._kept = kept
            end = [_END, pack("<II", check, size & 0xFFFFFFFF)]
            bodies = (body for _, body in kept.values())
            return b"".join([_HEADER, _deflated((first,)), *bodies, *end])

        return await to_thread(work)


def escaped(text: str) -> str:
    """Return a label's value, as the text format has it between quotes."""
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _pieces(families: Sequence[FamilyText]) -> Iterator[Piece]:
    for head, lines in families:
        for start in range(0, max(len(lines), 1), NODES):
            part = tuple(lines[start : start + NODES])
            yield part if start else (head, *part)


def _deflated(parts: Piece) -> bytes:
    work = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return b"".join([*map(work.compress, parts), work.flush(zlib.Z_FULL_FLUSH)])
