"""The storm: pods of all dialects come and go under their own schedulers while everything restarts.

Service, agents, schedulers and their controllers end without notice, each at least once.
"""

import os
import time
from collections import Counter
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from random import Random

import pytest

from e2e.harness.cluster.credentials import connect
from e2e.harness.cluster.nodes import FAKE
from e2e.kind import static_pod
from e2e.kind.described import described, use_agents_cards
from e2e.kind.pods import used
from e2e.kind.shell import eventually, get, sh
from e2e.kind.storm import Storm, description, new_pod

ROUNDS, BATCH, GONE = 4, 12, 8
COMPONENTS = [
    ("dragoman-system", "dragoman-"),
    ("dragoman-system", "dragoman-"),
    ("dragoman-system", "dragoman-node-"),
    ("dragoman-system", "dragoman-node-"),
    ("volcano-system", "volcano-scheduler-"),
    ("volcano-system", "volcano-controllers-"),
    ("koordinator-system", "koord-scheduler-"),
    ("koordinator-system", "koord-manager-"),
]
"""Two for each round: namespace, and how the names of its pods begin."""


def end_without_notice(space: str, prefix: str, random: Random) -> str:
    """Kill the containers of one pod of a component; its controller makes another."""
    rows = get("pods", f"--namespace={space}")
    names = [row["metadata"]["name"] for row in rows]
    name: str = random.choice([each for each in names if is_one_of(each, prefix)])
    sh(f"kubectl delete pod {name} --namespace={space} --grace-period=0 --force")
    return name


def is_one_of(name: str, prefix: str) -> bool:
    """Whether a pod is of a component; the agents' names begin with the service's too."""
    return name.startswith(prefix) and name.startswith("dragoman-node-") == (
        prefix == "dragoman-node-"
    )


def test_no_card_is_over_allocated_and_each_container_has_its_share_while_everything_restarts(
    workers: list[str], request: pytest.FixtureRequest
) -> None:
    random = Random(request.config.getoption("seed"))  # noqa: S311
    ended = random.sample(COMPONENTS, len(COMPONENTS))
    api = connect(Path(os.environ["KUBECONFIG"]))
    with ExitStack() as stack:
        for node in workers:
            made = description(node)
            metadata = {
                "annotations": {
                    k: v for k, v in made.node["metadata"]["annotations"].items() if k not in FAKE
                },
                "labels": made.node["metadata"]["labels"],
            }
            stack.enter_context(described(node, metadata, made.device))
        storm = stack.enter_context(Storm.on(api, workers))
        for at in range(ROUNDS):
            started = time.monotonic()
            for space, prefix in ended[at::ROUNDS]:
                print(f"{end_without_notice(space, prefix, random)} has ended")
            if at == ROUNDS // 2:
                sh(f"docker exec {static_pod.NODE} pkill -KILL -x kube-scheduler")
            for number in range(at * BATCH, (at + 1) * BATCH):
                eventually(90, partial(storm.is_created, new_pod(random, number)))
            print(f"{time.monotonic() - started:.1f} s: created")
            least = min(4 * at + 3, 12)
            eventually(120, lambda least=least: storm.running() >= least and storm.all_bound_run())
            print(f"{time.monotonic() - started:.1f} s: {storm.running()} run")
            storm.look()
            print(f"{time.monotonic() - started:.1f} s: looked")
            storm.delete(random.sample(storm.pods(), GONE), random)
        eventually(120, storm.all_bound_run)
        storm.look()
        by = Counter(row["spec"]["schedulerName"] for row in storm.witness.pods.values())
        print(f"{storm.witness.bound} bound, {len(storm.looked)} looked at, left: {by}")
        assert storm.problems() == []
        assert storm.disagreements() == []

        storm.delete(storm.pods(), random)
        eventually(90, lambda: get("pods") == [])
        eventually(60, lambda: used() == {})
        assert storm.problems() == []
    assert len(storm.looked) >= len(ended)


def test_the_agents_describe_their_cards_again() -> None:
    use_agents_cards()
