"""Acceptance list (docs/reference/testing.md): its cases for real schedulers.

The others need a fault of the API server, or calls that no scheduler makes: those are in
``e2e/tests/service/test_acceptance.py``. The storm has cases 3, 4, 6 and 14.
"""

import pytest

from e2e.adversary.cards import Card
from e2e.adversary.environment import wrong
from e2e.adversary.rules import Held
from e2e.kind import cards
from e2e.kind.pods import Pod, create, delete, environment, granted, pod, used, volcano
from e2e.kind.shell import CommandError, eventually, get, sh, wait_for

MIB = 2**20
WHOLE = cards.MEMORY_MIB
NUMBER, MEMORY, CORES = (f"volcano.sh/vgpu-{word}" for word in ("number", "memory", "cores"))
CORE, GPU_MEMORY, RATIO = (
    f"koordinator.sh/gpu-{word}" for word in ("core", "memory", "memory-ratio")
)
GPU = "nvidia.com/gpu"
KOORD = "koord-scheduler"
ONE_SIDED = {
    "volcano-cores": ({NUMBER: 1, CORES: 30}, "volcano", (WHOLE, 30)),
    "hami-cores": ({GPU: 1, f"{GPU}cores": 20}, "", (WHOLE, 20)),
    "volcano-memory": ({NUMBER: 1, MEMORY: 4000}, "volcano", (4000, 0)),
    "volcano-zero-cores": ({NUMBER: 1, MEMORY: 4000, CORES: 0}, "volcano", (4000, 0)),
    "koordinator-memory": ({GPU_MEMORY: 4096 * MIB}, KOORD, (4096, 0)),
    "koordinator-ratio": ({RATIO: 25}, KOORD, (WHOLE // 4, 0)),
    "hami-memory": ({GPU: 1, f"{GPU}mem": 3000}, "", (3000, 0)),
}
"""Limits, scheduler, and what they mean: MiB and percent. Those that take a card's memory first."""
REFUSED = {
    "volcano-zero-memory": ({NUMBER: 1, MEMORY: 0}, MEMORY),
    "koordinator-core-alone": ({CORE: 50}, f"needs {GPU_MEMORY} or {RATIO}"),
    "koordinator-nothing": ({CORE: 0}, "requests nothing"),
}
AT_ONCE = 20


def held(name: str) -> list[Held]:
    """What a pod of one container has, as its node's ledger says."""
    return [
        Held(name, row["card"], row["memory"] // MIB, row["compute"]) for row in granted()[name]
    ]


def all_cards(workers: list[str]) -> list[Card]:
    rows = [cards.uuid(node, index) for node in workers for index in range(cards.CARDS)]
    return [Card(each, WHOLE, frozenset()) for each in rows]


def test_case_08_memory_alone_cores_alone_and_zeros_mean_one_thing_in_each_dialect(
    workers: list[str],
) -> None:
    for name, (limits, scheduler, _) in ONE_SIDED.items():
        create(pod(name, limits, scheduler=scheduler))
        wait_for(f"pod/{name}", "--for=condition=PodScheduled", seconds=60)
    wait_for("pod", *ONE_SIDED, "--for=condition=Ready")

    for name, (_, _, share) in ONE_SIDED.items():
        (row,) = found = held(name)
        assert (row.memory, row.compute) == share, name
        assert wrong(name, environment(name), found, all_cards(workers)) == []
    for name, (limits, words) in REFUSED.items():
        with pytest.raises(CommandError) as refused:
            create(pod(name, limits))
        assert words in str(refused.value)
    delete(*ONE_SIDED)
    eventually(60, lambda: used() == {})


def test_case_09_init_containers_take_turns_with_one_card() -> None:
    ten = volcano(10000)
    in_turn = pod("in-turn", ten)
    (main,) = in_turn["spec"]["containers"]
    write = ["sh", "-c", "env > /dev/termination-log"]
    in_turn["spec"]["initContainers"] = [
        main | {"name": f"init-{number}", "command": write} for number in range(3)
    ]

    create(in_turn)
    wait_for("pod/in-turn", "--for=condition=Ready")

    (card,) = used()
    found = get("pod in-turn")
    summary = get(f"nodeledger {found['spec']['nodeName']}")["spec"]["summary"]
    assert summary["memory"] == "9 of 48 GiB", "of four times 10000 MiB"
    for each in found["status"]["initContainerStatuses"]:
        lines = each["state"]["terminated"]["message"].splitlines()
        assert f"NVIDIA_VISIBLE_DEVICES={card}" in lines
        assert "CUDA_DEVICE_MEMORY_LIMIT_0=10000m" in lines
    assert environment("in-turn")["CUDA_DEVICE_MEMORY_LIMIT_0"] == "10000m"
    delete("in-turn")
    eventually(60, lambda: used() == {})


def test_case_12_a_result_of_the_authors_own_is_rejected(workers: list[str]) -> None:
    forged = pod("forged", volcano(1000), scheduler="of-the-author")
    result = f"{cards.uuid(workers[0], 0)},NVIDIA,1,0:"
    forged["metadata"]["annotations"] = {"volcano.sh/vgpu-ids-new": result}

    with pytest.raises(CommandError, match=r"volcano\.sh/vgpu-ids-new"):
        create(forged)


def test_case_13_a_pod_without_a_share_that_says_all_sees_no_card() -> None:
    greedy: Pod = pod("greedy", {})
    greedy["spec"]["containers"][0]["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]

    create(greedy)
    wait_for("pod/greedy", "--for=condition=Ready")

    assert environment("greedy")["NVIDIA_VISIBLE_DEVICES"] == "void"
    delete("greedy")


def test_case_16_many_pods_at_once_on_one_node_are_bound_without_a_retry(
    workers: list[str],
) -> None:
    names = [f"at-once-{number}" for number in range(AT_ONCE)]
    create(*(pod(name, volcano(2000), node=workers[0], app="at-once") for name in names))
    wait_for("pod", "--for=condition=Ready", "--selector=app=at-once", seconds=120)

    assert granted(workers[0]).keys() == set(names)
    assert max(used().values()) <= WHOLE * MIB
    events = get("events", "--field-selector=reason=FailedScheduling")
    failed = [row for row in events if row["involvedObject"]["name"] in names]
    assert failed == []
    sh("kubectl delete pod --selector=app=at-once --grace-period=1 --timeout=90s")
    eventually(60, lambda: used() == {})
