"""Claims per second through stock kube-scheduler, with the arbiter and without, on the test bed.

    python bench/claims.py [NODES [CLAIMS [TURNS]]]

By default 1,000 nodes of eight cards (kwok), 2,000 claims of a share and one turn. Rounds with and
without the webhook alternate on one cluster: without, with, without.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # e2e is imported from the checkout

import turns

from e2e.harness.rounds import claim_scale
from e2e.testbed.cache import NotBuiltError


def measure(nodes: int, claims: int, count: int) -> Iterator[turns.Result]:
    """Each result as arguments of ``run.report``."""
    with claim_scale.ground(nodes) as service:
        rounds = [claim_scale.bind_all(service, claims, asked=False)]
        for _ in range(count):
            rounds.append(claim_scale.bind_all(service, claims, asked=True))
            rounds.append(claim_scale.bind_all(service, claims, asked=False))
    asked = [one for one in rounds if one.asked]
    yield from turns.compare("claims", [one for one in rounds if not one.asked], asked)


def main() -> None:
    """Measure what the command line names."""
    import run

    nodes, claims, count = [*sys.argv[1:], *("1000", "2000", "1")[len(sys.argv) - 1 :]]
    try:
        for result in measure(int(nodes), int(claims), int(count)):
            run.report(*result)
    except NotBuiltError as missing:
        sys.exit(f"skipped: {missing}")


if __name__ == "__main__":
    main()
