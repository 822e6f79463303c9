"""Rounds with the service and without that took turns on one cluster, compared.

A rate divided by a rate is what a user sees. On a machine whose speed changes by half between two
rounds it says little, so the processor time of a pod is also compared in pieces of a fixed work
that was repeated during each round: where the processors are the limit, its inverse is the rate.
"""

from collections.abc import Iterator, Sequence
from statistics import mean

from e2e.harness.rounds.round import Round

Result = tuple[str, float, str, str | None, float | None]
"""Name, value, unit, what it is compared with, and the ratio."""


def compare(what: str, alone: Sequence[Round], served: Sequence[Round]) -> Iterator[Result]:
    """Rates, processor time and work of a pod: means of all rounds of a kind."""
    base = mean(one.rate for one in alone)
    rate = mean(one.rate for one in served)
    yield f"{what}_alone_pods_per_s", base, "1/s", None, None
    yield f"{what}_pods_per_s", rate, "1/s", "alone", rate / base
    base = mean(one.work for one in alone)
    work = mean(one.work for one in served)
    yield f"{what}_alone_work_per_pod", base, "pieces", None, None
    yield f"{what}_work_per_pod", work, "pieces", "alone", work / base
    for way, rounds in (("_alone", alone), ("", served)):
        for name in sorted({name for one in rounds for name in one.processor}):
            spent = mean(one.processor.get(name, 0.0) / one.pods for one in rounds)
            yield f"{what}{way}_{name}_cpu_ms_per_pod", spent * 1e3, "ms", None, None
