"""Which pods a gang has, by what the watches report."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from adapters.accounting.gang_cache import Gang, GangCache
from adapters.dialects.gangs import GROUPS, MIN_AVAILABLE, TASK
from adapters.wire.kube import (
    Container,
    Metadata,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
    Resources,
    SchedulingGate,
    SchedulingGroup,
)
from adapters.wire.kube_policy import DisruptionMode, PodGroupObject, PodGroupSpec, TogetherMode
from core.requests.gang import GangApi, GangRef

NAME = "gang.scheduling.koordinator.sh/name"
LABEL = "pod-group.scheduling.sigs.k8s.io"


def pod(name: str, gang: str = "g", minimum: int = 2, groups: str = "", node: str = "") -> Pod:
    texts = {NAME: gang, MIN_AVAILABLE: str(minimum), **({GROUPS: groups} if groups else {})}
    metadata = Metadata(name=name, namespace="team", uid=f"u-{name}", annotations=texts)
    return Pod(metadata, PodSpec(node_name=node or None))


def uids(cache: GangCache, asked: Pod) -> list[str]:
    gang = cache.gang(asked)
    return [] if gang is None else sorted(each.metadata.uid for each in gang.pods)


def test_pods_come_and_go() -> None:
    cache = GangCache()
    first, second = pod("a"), pod("b")
    cache.put(first)
    cache.put(second)
    assert uids(cache, first) == ["u-a", "u-b"]

    terminating = replace(second, metadata=replace(second.metadata, deletion_timestamp="now"))
    cache.put(terminating)
    assert uids(cache, first) == ["u-a"]
    cache.drop("u-a")
    cache.drop("u-a")
    assert uids(cache, first) == ["u-a"]  # its scheduler knows it, no watch does
    assert [*cache.unbound("team")] == []


def test_bound_pods_stay_in_their_gang_and_do_not_wait() -> None:
    cache = GangCache()
    cache.put(pod("a"))
    cache.put(pod("b", node="n"))
    gang = cache.gang(pod("a"))

    assert gang is not None
    assert sorted(each.spec.node_name or "" for each in gang.pods) == ["", "n"]
    assert [each.metadata.name for each in cache.unbound("team")] == ["a"]
    assert [*cache.unbound("other")] == []
    assert gang.lacks(frozenset(("u-a",))) == 1
    assert gang.lacks(frozenset(("u-a", "u-b"))) == 0


def test_a_pod_that_may_be_bound_alone_is_in_no_gang() -> None:
    cache = GangCache()
    alone = pod("a", minimum=1)
    plain = Pod(Metadata(name="p", namespace="team", uid="u"))
    labelled = Pod(Metadata(name="p", namespace="team", uid="u", labels={LABEL: "g"}))
    for each in (alone, plain, labelled):
        cache.put(each)
        assert cache.gang(each) is None


def test_the_object_of_a_gang_counts_more_than_what_its_pods_say() -> None:
    cache = GangCache()
    metadata = Metadata(name="g", namespace="team")
    cache.put_group(GangApi.KOORDINATOR, PodGroupObject(metadata, PodGroupSpec(min_member=3)))
    gang = cache.gang(pod("a"))
    assert gang is not None
    assert gang.minimum == 3

    cache.put_group(GangApi.KOORDINATOR, PodGroupObject(metadata))
    cache.drop_group(GangRef(GangApi.KOORDINATOR, "team", "g"))
    gang = cache.gang(pod("a"))
    assert gang is not None
    assert gang.minimum == 2


def test_gangs_that_are_bound_together_are_one_with_a_minimum_each() -> None:
    cache = GangCache()
    groups = '["team/g", "team/h"]'
    cache.put(pod("a", groups=groups))
    cache.put(pod("b", gang="h", minimum=1, groups=groups))
    gang = cache.gang(pod("a", groups=groups))

    assert gang is not None
    assert [(str(part.ref), part.minimum) for part in gang.parts] == [("team/g", 2), ("team/h", 1)]
    assert gang.lacks(frozenset(("u-a",))) == 2
    assert uids(cache, pod("b", gang="h", minimum=1, groups=groups)) == ["u-a", "u-b"]


def test_a_gang_that_does_not_name_another_is_not_bound_with_it() -> None:
    cache = GangCache()
    cache.put(pod("victim", gang="h"))
    forged = pod("a", groups='["team/g", "team/h"]')
    cache.put(forged)

    assert uids(cache, forged) == ["u-a"]


def test_gangs_that_are_bound_in_part() -> None:
    cache = GangCache()
    for each in (pod("a"), pod("b"), pod("single", gang="s", minimum=1, node="n")):
        cache.put(each)
    assert [*cache.bound_in_part()] == []

    cache.put(pod("a", node="n"))
    (gang,) = cache.bound_in_part()
    assert str(gang.ref) == "team/g"

    cache.put(pod("b", node="n"))
    assert [*cache.bound_in_part()] == []


def in_group(name: str, node: str = "", group: str = "g") -> Pod:
    metadata = Metadata(name=name, namespace="team", uid=f"u-{name}")
    spec = PodSpec(node_name=node or None, scheduling_group=SchedulingGroup(group))
    return Pod(metadata, spec)


def all_at_once(name: str = "g", priority: int | None = 3) -> PodGroupObject:
    spec = PodGroupSpec(disruption_mode=DisruptionMode(all=TogetherMode()), priority=priority)
    return PodGroupObject(Metadata(name=name, namespace="team"), spec)


def test_bound_pods_of_a_group_are_disrupted_together_where_it_says_so() -> None:
    cache = GangCache()
    cache.put_group(GangApi.KUBERNETES, all_at_once())
    for each in (in_group("a", "n1"), in_group("b", "n2"), in_group("waits")):
        cache.put(each)
    ended = in_group("ended", "n2")
    cache.put(replace(ended, status=PodStatus(phase="Succeeded")))
    cache.put(in_group("other", "n1", group="single"))
    cache.put(pod("koordinator", node="n1"))

    found = cache.disrupted_with("u-a")

    assert found is not None
    assert (found.priority, [each.metadata.name for each in found.pods]) == (3, ["a", "b"])
    assert cache.disrupted_with("u-other") is None
    assert cache.disrupted_with("u-koordinator") is None
    assert cache.disrupted_with("unknown") is None


def test_a_group_has_the_priority_of_its_highest_pod() -> None:
    cache = GangCache()
    cache.put_group(GangApi.KUBERNETES, all_at_once())
    for name, priority in (("a", None), ("b", 7)):
        each = in_group(name, "n1")
        spec = replace(each.spec, priority=priority, termination_grace_period_seconds=90)
        cache.put(replace(each, spec=spec))

    found = cache.disrupted_with("u-a")

    assert found is not None
    assert found.priority == 7
    assert [each.spec.termination_grace_period_seconds for each in found.pods] == [90, 90]


def test_the_mode_of_a_group_goes_with_its_object() -> None:
    cache = GangCache()
    cache.put(in_group("a", "n1"))
    cache.put_group(GangApi.KUBERNETES, all_at_once(priority=None))
    found = cache.disrupted_with("u-a")
    assert found is not None
    assert found.priority == 0

    cache.put_group(
        GangApi.KUBERNETES,
        PodGroupObject(
            Metadata(name="g", namespace="team"), PodGroupSpec(disruption_mode=DisruptionMode())
        ),
    )
    assert cache.disrupted_with("u-a") is None
    cache.put_group(GangApi.KUBERNETES, all_at_once())
    cache.drop_group(GangRef(GangApi.KUBERNETES, "team", "g"))
    assert cache.disrupted_with("u-a") is None


def test_of_a_pod_that_needs_no_cards_its_containers_are_not_kept() -> None:
    cache = GangCache()
    names = ("cpu", "volcano.sh/vgpu-number")
    for each, resource in zip("ab", names, strict=True):
        container = Container("main", Resources(limits={resource: 1}))
        cache.put(replace(pod(each), spec=PodSpec((container,))))
    gang = cache.gang(pod("a"))

    assert gang is not None
    assert {each.metadata.name: len(each.spec.containers) for each in gang.pods} == {"a": 0, "b": 1}


def test_the_many_pods_of_volcano_cost_little_and_leave_other_gangs_as_they_are() -> None:
    cache = GangCache()
    group = PodGroupObject(Metadata(name="g", namespace="team"), PodGroupSpec(min_member=2))
    cache.put_group(GangApi.KOORDINATOR, group)
    cache.put_group(GangApi.VOLCANO, group)
    for name in "ab":
        cache.put(pod(name))
    before, revision = cache.gang(pod("a")), cache.revision
    texts = {"scheduling.k8s.io/group-name": "g", TASK: "worker"}
    running = [
        Pod(
            Metadata(name=uid, namespace="team", uid=uid, annotations=texts | {"long": "x"}),
            PodSpec(scheduler_name="volcano", node_name="n"),
        )
        for uid in ("v1", "v2")
    ]
    for each in running:
        cache.put(each)
    gang = cache.any_gang(running[0])

    assert before is not None
    assert cache.gang(pod("a")) is before
    assert cache.revision > revision
    assert gang is not None
    assert [each.metadata.annotations for each in gang.pods] == [texts] * 2


def test_the_pods_of_each_task_are_missed_beside_the_number_of_all() -> None:
    cache = GangCache()
    spec = PodGroupSpec(min_member=3, min_task_member={"master": 1, "worker": 2})
    group = PodGroupObject(Metadata(name="g", namespace="team"), spec)
    cache.put_group(GangApi.VOLCANO, group)
    pods = [
        Pod(
            Metadata(
                name=name,
                namespace="team",
                uid=name,
                annotations={"scheduling.k8s.io/group-name": "g", TASK: task},
            ),
            PodSpec(scheduler_name="volcano"),
        )
        for name, task in (("m1", "master"), ("m2", "master"), ("w1", "worker"), ("w2", "worker"))
    ]
    for each in pods:
        cache.put(each)
    gang = cache.any_gang(pods[0])

    assert gang is not None
    assert cache.gang(pods[0]) is None, "vc-scheduler decides about its own gangs"
    assert not [*cache.unbound("team"), *cache.bound_in_part()]
    assert [gang.lacks(frozenset(names)) for names in (("m1", "m2", "w1"), ("m1",))] == [1, 2]
    assert [gang.lacks(frozenset(names)) for names in (("m1", "w1", "w2"), ())] == [0, 3]


def test_every_change_of_a_gang_has_another_revision() -> None:
    cache = GangCache()
    group = PodGroupObject(Metadata(name="g", namespace="team"), PodGroupSpec(min_member=3))
    changes: list[Callable[[], None]] = [
        lambda: cache.put(pod("a")),
        lambda: cache.put_group(GangApi.KOORDINATOR, group),
        lambda: cache.drop_group(GangRef(GangApi.KOORDINATOR, "team", "g")),
        lambda: cache.drop("u-a"),
    ]
    seen = [cache.revision]
    for change in changes:
        change()
        seen.append(cache.revision)

    assert len({*seen}) == len(seen)


def test_a_report_of_what_is_known_is_no_change() -> None:
    cache = GangCache()
    running = pod("b", node="n")
    for each in (pod("a"), running):
        cache.put(each)
    before = cache.revision
    cache.put(pod("a"))
    cache.put(replace(running, status=PodStatus(conditions=(PodCondition("Ready", "True"),))))
    cache.put(Pod(Metadata(name="p", namespace="team", uid="u")))

    assert cache.revision == before
    cache.put(pod("b", gang="h", node="n"))
    assert cache.revision > before
    assert uids(cache, pod("a")) == ["u-a"]


def test_a_pod_with_a_scheduling_gate_is_none_of_its_gang() -> None:
    cache = GangCache()
    cache.put(pod("a"))
    gated = replace(pod("b"), spec=PodSpec(scheduling_gates=(SchedulingGate("wait"),)))
    cache.put(gated)

    assert uids(cache, pod("a")) == uids(cache, gated) == ["u-a"]


def test_gangs_that_are_bound_together_are_built_once_for_a_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cache, built, real = GangCache(), list[object](), GangCache._gang
    names = [f"g{number}" for number in range(8)]
    groups = json.dumps([f"team/{name}" for name in names])
    for name in names:
        cache.put(pod(f"{name}-0", name, groups=groups, node="n"))

    def counted(*args: Any) -> Gang | None:
        built.append(args)
        return real(*args)

    monkeypatch.setattr(GangCache, "_gang", counted)

    assert len([*cache.bound_in_part()]) == 1
    assert len(built) == 1
