"""The acceptance list, from problems that users of the peers report: one test a case, by number.

Cases 1, 12, 13 and 14 are about containers and are in ``node/test_acceptance.py``.
"""

import time
from collections.abc import Iterator
from functools import partial
from random import Random

import pytest

from e2e.harness.cluster.api import ApiError, Object
from e2e.harness.cluster.bulk import create_all
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.namespaces import namespace
from e2e.harness.cluster.node_ledgers import held, ledger, wait_until_free
from e2e.harness.cluster.ready_cluster import PODS, add_priorities, node_of, pod, turn
from e2e.harness.cluster.shared_cluster import LABEL
from e2e.harness.doubles.recorder import Call, recorder
from e2e.harness.doubles.webhook import allow, refuse, webhook
from e2e.harness.oracles.pod_watcher import PodWatcher as PodWatcher
from e2e.harness.processes.waiting import within
from e2e.harness.schedulers.full_stack import (
    KUBE,
    Planes,
    add_ready_nodes,
    prepare,
    starter,
    wait_for_cards,
)
from e2e.harness.schedulers.service import Service, start_service, webhooks, with_decisions
from e2e.harness.workloads.inventory import Described, Gpu, described, gpus, koordinator
from e2e.harness.workloads.inventory import metax as metax_says
from e2e.harness.workloads.storm import (
    KINDS,
    described_by_all,
    random_pod,
    unanswered,
)
from e2e.tests.service.driving import asleep, bind_by, counted, refusal, started, wait_until_bound

NUMBER, MEMORY, CORES = (f"volcano.sh/vgpu-{word}" for word in ("number", "memory", "cores"))
SGPU, VCORE, VMEMORY = (f"metax-tech.com/{word}" for word in ("sgpu", "vcore", "vmemory"))
SHARED, CORE, GPU_MEMORY, RATIO = (
    f"koordinator.sh/{word}"
    for word in ("gpu.shared", "gpu-core", "gpu-memory", "gpu-memory-ratio")
)
MIB, GIB = 1 << 20, 1 << 30
CONFLICTS, FAILED = ("ledger_conflicts_total ",), ('verb="bind"', 'result="error"')
"""Words by which the service's counters are found."""
NO_SCHEDULER = "no-scheduler"
"""A scheduler that does not exist: the test calls the service itself, as a scheduler would."""


def all_nodes() -> dict[str, Described]:
    """A node for each case, so that none sees what another has left."""
    small, large = Gpu("GPU-10-small", 10240), Gpu("GPU-10-large", 20480)
    cards = gpus("case-7", 1, 65536)
    nodes = {
        "case-7": described("case-7", koordinator(cards, "metax"), metax_says(cards)),
        "case-9": described_by_all("case-9", gpus("case-9", 1, 16384)),
        "case-10": described_by_all("case-10", (small, large)),
        "case-16": described_by_all("case-16", gpus("case-16", 10)),
        "case-6": described_by_all("case-6", gpus("case-6", 8)),
    }
    for case in (2, 3, 4, 8, 11, 15):
        nodes[f"case-{case}"] = described_by_all(f"case-{case}", gpus(f"case-{case}", 1))
    return nodes


@pytest.fixture(scope="module")
def plane(planes: Planes) -> Iterator[ControlPlane]:
    with planes() as plane:
        add_priorities(plane.api)
        prepare(plane)
        add_ready_nodes(plane, all_nodes().values())
        yield plane


@pytest.fixture(scope="module")
def service(plane: ControlPlane) -> Iterator[Service]:
    """The service, kube-scheduler as configured for it, and its webhooks."""
    made = start_service(plane)
    with turn(starter(made, KUBE), plane), webhooks(made):
        wait_for_cards(plane, all_nodes())
        yield made


@pytest.fixture(autouse=True)
def clean(plane: ControlPlane) -> Iterator[None]:
    yield
    plane.api.delete(f"{PODS}?gracePeriodSeconds=0")
    within(30, lambda: not plane.api.get(PODS)["items"])
    wait_until_free(plane, *all_nodes())


def on(
    case: int, name: str, resources: dict[str, str], scheduler: str = KUBE, priority: str = ""
) -> Object:
    """A pod that may only run on the node of a case."""
    where = {"kubernetes.io/hostname": f"case-{case}"}
    return pod(name, scheduler, resources, priority=priority, nodeSelector=where)


def whole(memory: int = 81920) -> dict[str, str]:
    """All the memory of a card."""
    return {NUMBER: "1", MEMORY: str(memory)}


def add(plane: ControlPlane, *pods: Object, path: str = PODS) -> None:
    for each in pods:
        plane.api.create(path, waiting(plane, each))


def waiting(plane: ControlPlane, made: Object) -> Object:
    """A pod that names its scheduler as it is called on this cluster."""
    made["spec"]["schedulerName"] = plane.scheduler(made["spec"]["schedulerName"])
    return made


def scheduling_events(plane: ControlPlane, name: str, home: str) -> str:
    """The Events of a pod of another namespace."""
    rows = plane.api.get(f"{home}/events")["items"]
    return "\n".join(row["message"] for row in rows if row["involvedObject"]["name"] == name)


def grants(plane: ControlPlane, case: int, name: str) -> list[tuple[str, int, int]]:
    """Container, MiB and percent of each grant of a pod in the ledger."""
    rows = held(plane, f"case-{case}")[name]["grants"]
    return [(row["container"], row["memory"] // MIB, row["compute"]) for row in rows]


def remove(plane: ControlPlane, *names: str) -> None:
    for name in names:
        plane.api.delete(f"{PODS}/{name}?gracePeriodSeconds=0")


def test_case_02_a_binding_that_fails_once_or_always_allocates_no_card_twice(
    plane: ControlPlane, service: Service
) -> None:
    node, label = "case-2", "dragoman.dev/case-2"
    refused: list[list[str]] = []

    def fail(call: Call, times: int, code: int) -> Object:
        refused.append(list(held(plane, node)))
        return refuse(call, "no", code) if len(refused) <= times else allow(call)

    with (
        recorder(plane.authority.server("case-2"), plane.address) as veto,
        namespace(plane.api, "case-2", {label: "", LABEL: ""}) as home,
        webhook(plane, veto, "veto", ["pods/binding"], label),
    ):
        pods = f"{home}/pods"

        def bound(name: str) -> bool:
            return "nodeName" in plane.api.get(f"{pods}/{name}")["spec"]

        veto.answers["veto"] = partial(fail, times=1, code=500)
        add(plane, on(2, "once", whole()), path=pods)
        with_decisions(service, lambda: within(60, lambda: bound("once")))
        # The cards are committed before the Binding is sent; an unclear error keeps them.
        assert refused == [["once"], ["once"]]
        plane.api.delete(f"{pods}/once?gracePeriodSeconds=0")
        wait_until_free(plane, node)

        refused.clear()
        veto.answers["veto"] = partial(fail, times=1 << 30, code=403)
        add(plane, on(2, "always", whole()), path=pods)
        within(60, lambda: len(refused) >= 2)
        add(plane, on(2, "other", whole(), NO_SCHEDULER))
        # A clear refusal releases them for the next pod.
        with_decisions(service, lambda: within(60, lambda: bind_by(service, "other", node) == ""))
        print(f"refused {len(refused)} times, then another pod had the card")
        within(60, lambda: "short" in scheduling_events(plane, "always", home))
        assert not bound("always")
        assert list(held(plane, node)) == ["other"]


def test_case_03_a_service_that_takes_over_with_a_lagging_watch_allocates_nothing_twice(
    plane: ControlPlane, service: Service
) -> None:
    node, second = "case-3", start_service(plane, "second")
    assert second.process is not None
    for number in range(2):
        first, late = f"first-{number}", f"late-{number}"
        add(plane, on(3, first, whole(), NO_SCHEDULER), on(3, late, whole(), NO_SCHEDULER))
        with asleep(second.process):
            assert bind_by(service, first, node) == ""
            service.kill()
        said = bind_by(second, late, node)

        print(f"{said}; {counted(second, *CONFLICTS)} conflicts so far")
        assert "memory 80 GiB short" in said
        assert (node_of(plane.api, first), node_of(plane.api, late)) == (node, "")
        assert list(held(plane, node)) == [first]
        service.start()
        remove(plane, first, late)
        wait_until_free(plane, node)
    assert second.stop() == 0


def test_case_04_cards_come_back_wherever_a_pod_ends_on_its_way(
    plane: ControlPlane, service: Service
) -> None:
    node = "case-4"

    def between(name: str, end: str) -> float:
        """Bind a pod that no kubelet starts, end it, and wait for its card."""
        add(plane, on(4, name, whole(), NO_SCHEDULER))
        assert bind_by(service, name, node) == ""
        assert name in held(plane, node)
        if end == "deleted":
            remove(plane, name)
        else:
            plane.api.merge(f"{PODS}/{name}/status", {"status": {"phase": end}})
        return with_decisions(service, lambda: within(30, lambda: not held(plane, node)))

    add(plane, on(4, "filtered", whole(), NO_SCHEDULER))
    found = plane.api.get(f"{PODS}/filtered")
    answer = service.ask("/extender/filter", {"Pod": found, "NodeNames": [node]})
    remove(plane, "filtered")
    within(
        20,
        lambda: all(row["metadata"]["name"] != "filtered" for row in plane.api.get(PODS)["items"]),
    )
    uid = found["metadata"]["uid"]
    question = {"PodName": "filtered", "PodNamespace": "default", "PodUID": uid, "Node": node}
    late = service.ask("/extender/bind", question)["Error"]
    empty = held(plane, node)
    with asleep(started(plane, "kwok")):
        seconds = {end: between(end.lower(), end) for end in ("deleted", "Failed", "Succeeded")}

    print(f"after filter: {late!r}; bound, not started, then free again after {seconds}")
    assert answer["NodeNames"] == [node]
    assert late
    assert empty == {}


def test_case_06_all_dialects_and_whole_cards_on_one_node_never_exceed_a_card(
    plane: ControlPlane, service: Service, request: pytest.FixtureRequest
) -> None:
    """In short; ``service/test_storm.py`` has three schedulers, hundreds of pods, and deletes."""
    seed = request.config.getoption("randomly_seed", None) or time.time_ns()
    random, cards = Random(seed), gpus("case-6", 8)  # noqa: S311
    print(f"seed {seed}")
    kinds = [kind for kind in KINDS for _ in range(12)]
    random.shuffle(kinds)
    selector = {"kubernetes.io/hostname": "case-6"}
    with PodWatcher.of(plane.api, cards) as watcher:
        for number, kind in enumerate(kinds):
            made = random_pod(random, kind, f"{kind}-{number}", KUBE)
            made["spec"]["nodeSelector"] = selector
            add(plane, made)
        with_decisions(service, lambda: within(90, lambda: not unanswered(plane.api)))
        left = watcher.problems()

    bound = [row for row in plane.api.get(PODS)["items"] if "nodeName" in row["spec"]]
    print(f"{len(bound)} of {len(kinds)} bound; {watcher.states} states looked at")
    assert left == []
    assert len(bound) >= 8
    assert len(held(plane, "case-6")) == len(bound)


def test_case_07_a_koordinator_pod_that_names_metaxs_trigger_too_is_allocated_once(
    plane: ControlPlane, service: Service
) -> None:
    half = {SHARED: "1", CORE: "50", RATIO: "50", SGPU: "1"}
    add(plane, on(7, "one", half), on(7, "two", half))
    wait_until_bound(service, "one", "two")

    add(plane, on(7, "three", half))
    said = refusal(plane, "three")

    (card,) = service.get("/api/cards?node=case-7")
    assert (card["usedMemoryMiB"], card["usedCompute"]) == (65536, 100)
    assert grants(plane, 7, "one") == grants(plane, 7, "two") == [("main", 32768, 50)]
    assert held(plane, "case-7")["one"]["dialect"] == "koordinator"
    written = plane.api.get(f"{PODS}/one")["metadata"]["annotations"]
    assert "scheduling.koordinator.sh/device-allocated" in written
    assert written["metax-tech.com/gpu-devices-allocated"].count("uuid") == 1
    assert "32 GiB short" in said


ONE_SIDED = {
    "volcano-memory": ({NUMBER: "1", MEMORY: "4000"}, (4000, 0)),
    "volcano-memory-without-number": ({MEMORY: "4000"}, (4000, 0)),
    "volcano-cores": ({NUMBER: "1", CORES: "30"}, (81920, 30)),
    "volcano-zero-cores": ({NUMBER: "1", MEMORY: "4000", CORES: "0"}, (4000, 0)),
    "koordinator-memory": ({GPU_MEMORY: "8Gi"}, (8192, 0)),
    "koordinator-ratio": ({RATIO: "25"}, (20480, 0)),
    "koordinator-zero-core": ({GPU_MEMORY: "8Gi", CORE: "0"}, (8192, 0)),
    "metax-memory": ({SGPU: "1", VMEMORY: "4"}, (4096, 100)),
    "metax-cores": ({SGPU: "1", VCORE: "20"}, (81920, 20)),
}
REFUSED = {
    "volcano-zero-memory": ({NUMBER: "1", MEMORY: "0"}, MEMORY),
    "koordinator-core-alone": ({CORE: "50"}, f"needs {GPU_MEMORY} or {RATIO}"),
    "koordinator-nothing": ({CORE: "0"}, "requests nothing"),
    "metax-zero-cores": ({SGPU: "1", VCORE: "0", VMEMORY: "4"}, "must be 1 to 100"),
}


def test_case_08_memory_alone_cores_alone_and_zeros_mean_one_thing_in_each_dialect(
    plane: ControlPlane, service: Service
) -> None:
    given, answers = {}, {}
    for name, (resources, _) in ONE_SIDED.items():
        add(plane, on(8, name, resources, NO_SCHEDULER))
        said = bind_by(service, name, "case-8")
        given[name] = said or grants(plane, 8, name)
        remove(plane, name)
        wait_until_free(plane, "case-8")
    for name, (resources, _) in REFUSED.items():
        with pytest.raises(ApiError) as refused:
            add(plane, on(8, name, resources, NO_SCHEDULER))
        answers[name] = str(refused.value)

    print(answers)
    assert given == {name: [("main", *share)] for name, (_, share) in ONE_SIDED.items()}
    assert [name for name, (_, words) in REFUSED.items() if words not in answers[name]] == []


def test_case_09_init_containers_take_turns_and_one_without_cards_changes_nothing(
    plane: ControlPlane, service: Service
) -> None:
    ten, six = ({NUMBER: "1", MEMORY: str(size * 1024)} for size in (10, 6))
    in_turn = on(9, "in-turn", ten)
    in_turn["spec"]["initContainers"] = [
        {"name": f"init-{number}", "image": "localhost/none", "resources": {"limits": ten}}
        for number in range(3)
    ]
    plain = on(9, "plain", six)
    plain["spec"]["initContainers"] = [
        {"name": "fetch", "image": "localhost/none", "resources": {"limits": {"cpu": "1"}}}
    ]

    add(plane, in_turn, plain)
    wait_until_bound(service, "in-turn", "plain")

    names = [container for container, *_ in grants(plane, 9, "in-turn")]
    assert sorted(names) == ["init-0", "init-1", "init-2", "main"]
    assert grants(plane, 9, "plain") == [("main", 6144, 0)]
    (card,) = service.get("/api/cards?node=case-9")
    assert card["usedMemoryMiB"] == 16384


def test_case_10_cards_of_different_sizes_on_one_node_are_each_counted_by_its_own(
    plane: ControlPlane, service: Service
) -> None:
    def size(gib: int) -> dict[str, str]:
        return {NUMBER: "1", MEMORY: str(gib * 1024)}

    add(plane, on(10, "fifteen", size(15)))
    wait_until_bound(service, "fifteen")
    add(plane, on(10, "eleven", size(11)), on(10, "ten", size(10)))
    wait_until_bound(service, "ten")
    add(plane, on(10, "five", size(5)))
    wait_until_bound(service, "five")
    said = refusal(plane, "eleven")

    cards = {name: row["grants"][0]["card"] for name, row in held(plane, "case-10").items()}
    assert cards == {"fifteen": "GPU-10-large", "ten": "GPU-10-small", "five": "GPU-10-large"}
    print(said)
    assert "memory" in said


def test_case_11_a_pod_that_fitted_nowhere_is_placed_when_there_is_room(
    plane: ControlPlane, service: Service
) -> None:
    add(plane, on(11, "first", whole()))
    wait_until_bound(service, "first")
    add(plane, on(11, "waits", whole()))
    refusal(plane, "waits")
    time.sleep(5)  # the scheduler does not look at it again by itself

    remove(plane, "first")
    seconds = wait_until_bound(service, "waits", patience=10)

    print(f"placed {seconds:.1f} s after the card was free")


def test_case_15_preempt_with_empty_lists_of_victims_names_the_fewest(
    plane: ControlPlane, service: Service
) -> None:
    for name, memory in (("large", 40000), ("small", 10000), ("tiny", 5000)):
        add(plane, on(15, name, whole(memory), NO_SCHEDULER, "low"))
        assert bind_by(service, name, "case-15") == ""
    add(plane, on(15, "wanted", whole(60000), NO_SCHEDULER, "high"))
    wanted = plane.api.get(f"{PODS}/wanted")
    question = {
        "Pod": wanted,
        "NodeNameToMetaVictims": {"case-15": {"Pods": [], "NumPDBViolations": 0}},
    }

    answer = service.ask("/extender/preempt", question)["NodeNameToMetaVictims"]

    large = plane.api.get(f"{PODS}/large")["metadata"]["uid"]
    assert [row["UID"] for row in answer["case-15"]["Pods"]] == [large]


def test_case_16_a_hundred_pods_at_once_are_bound_without_locks_and_without_retries(
    plane: ControlPlane, service: Service
) -> None:
    node = "case-16"
    share = {NUMBER: "1", MEMORY: "6000", CORES: "5"}
    names = [f"pod-{number}" for number in range(100)]
    before = ledger(plane, node).get("changes", 0)
    was_counted = {words: counted(service, *words) for words in (CONFLICTS, FAILED)}
    started_at = time.monotonic()
    create_all(plane.api, PODS, [waiting(plane, on(16, name, share)) for name in names])

    def bound() -> set[str]:
        rows = plane.api.get(PODS)["items"]
        return {row["metadata"]["name"] for row in rows if "nodeName" in row["spec"]}

    with_decisions(service, lambda: within(90, lambda: bound() == set(names)))
    print(f"{len(names)} pods bound after {time.monotonic() - started_at:.1f} s")

    writes = ledger(plane, node)["changes"] - before
    lost, failed = (counted(service, *words) - was for words, was in was_counted.items())
    print(f"{writes} writes of the ledger, {lost} lost races, {failed} bindings that failed")
    assert writes + lost + failed < 1.1 * len(names), "one write a pod, and hardly a retry"
    written = plane.api.get(f"/api/v1/nodes/{node}")["metadata"]["annotations"]
    assert not [key for key in written if "lock" in key or "hamivgpu" in key]
