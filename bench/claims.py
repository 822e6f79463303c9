"""Claims per second through stock kube-scheduler, with the arbiter and without, on the test bed.

    python bench/claims.py [NODES [CLAIMS [TURNS]]]

By default 1,000 nodes of eight cards (kwok), 2,000 claims of a share and one turn. Rounds with and
without the webhook alternate on one cluster: without, with, without.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # e2e is imported from the checkout

from e2e.harness.rounds import claim_scale
from e2e.testbed.cache import NotBuiltError

Result = tuple[str, float, str, str | None, float | None]
"""As in ``service``."""


def measure(nodes: int, claims: int, turns: int) -> Iterator[Result]:
    """Each result as arguments of ``run.report``."""
    with claim_scale.ground(nodes) as service:
        rounds = [claim_scale.bind_all(service, claims, asked=False)]
        for _ in range(turns):
            rounds.append(claim_scale.bind_all(service, claims, asked=True))
            rounds.append(claim_scale.bind_all(service, claims, asked=False))
    alone = [one.rate for one in rounds if not one.asked]
    base = sum(alone) / len(alone)
    yield "claims_alone_pods_per_s", base, "1/s", None, None
    for one in rounds:
        way = "" if one.asked else "_alone"
        spent = sum(one.processor.values()) / one.pods
        yield f"claims{way}_all_cpu_ms_per_pod", spent * 1e3, "ms", None, None
        if one.asked:
            yield "claims_pods_per_s", one.rate, "1/s", "alone", one.rate / base
            cpu = one.processor[service.name] / one.pods
            yield "claims_our_cpu_ms_per_pod", cpu * 1e3, "ms", None, None


def main() -> None:
    """Measure what the command line names."""
    import run

    nodes, claims, turns = [*sys.argv[1:], *("1000", "2000", "1")[len(sys.argv) - 1 :]]
    try:
        for result in measure(int(nodes), int(claims), int(turns)):
            run.report(*result)
    except NotBuiltError as missing:
        sys.exit(f"skipped: {missing}")


if __name__ == "__main__":
    main()
