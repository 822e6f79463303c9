"""On any cluster: of a gang enough pods have cards or no pod got any, and no card has too much."""

from collections import Counter

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from adapters.cli.fleet.fleet import read_fleet
from adapters.cli.input.manifests import manifests
from adapters.cli.input.source import Source
from adapters.cli.output.report import PodResult
from adapters.cli.schedule import Run, RunOptions
from adapters.cli.tests.builders import Plain, metax, node, pod, stream, volcano
from adapters.cli.tests.gangs import APIS, bound, group, member
from adapters.dialects.dialect import Defaults
from core.hardware.quantity import MIB

GANGS = ("g", "h")

seldom = st.sampled_from((False, False, False, True))

requests = st.one_of(
    *[st.sampled_from((100, 4000, 6000, 9000)).map(volcano)] * 4,
    st.sampled_from((4000, 6000)).map(lambda memory: volcano(memory, number=2)),
    st.just({"nvidia.com/gpu": 1}),
    st.just(metax(50, 1)),
    st.just({"cpu": 1}),
)


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[Plain], dict[str, int]]:
    """Objects, and by name of a gang how many pods are bound together."""
    things: list[Plain] = []
    names = [f"n{number}" for number in range(draw(st.integers(1, 3)))]
    for name in names:
        status = {"nvidia.com/gpu": str(draw(st.integers(0, 2)))}
        more: Plain = {"status": {"capacity": status, "allocatable": status}}
        if draw(seldom):
            more["spec"] = {"unschedulable": True}
        things.append(node(name, draw(st.sampled_from((0, 1, 2, 3, 3))), 10_000 * MIB, more))
    least = {name: draw(st.sampled_from((0, 1, 2, 2, 3, 4))) for name in GANGS}
    apis = {name: draw(st.sampled_from(APIS)) for name in GANGS}
    apis["g"] = APIS[0]  # that of ``bound``
    things += [group(apis[name], number, name) for name, number in least.items()]
    if draw(seldom):
        limits = draw(st.sampled_from(({"cards": 2}, {"memory": "10Gi"})))
        things.append(
            {
                "apiVersion": "dragoman.dev/v1alpha1",
                "kind": "ShareQuota",
                "metadata": {"name": "quota", "namespace": "default"},
                "spec": {"limits": limits},
            }
        )
    for number in range(draw(st.sampled_from((0, 0, 1, 2)))):
        things.append(bound(f"bound-{number}", number, draw(st.sampled_from(names))))
    pods = [pod(f"single-{number}", draw(requests)) for number in range(draw(st.integers(0, 3)))]
    for gang, number in least.items():
        for index in range(number + draw(st.sampled_from((0, 0, 0, 1, 2, -1)))):
            spec: Plain = {"nodeSelector": {"no": "node"}} if draw(seldom) and draw(seldom) else {}
            if draw(seldom) and draw(seldom):
                spec["schedulingGates"] = [{"name": "wait"}]
            pods.append(member(f"{gang}{index}", apis[gang], gang, draw(requests), spec=spec))
    things += draw(st.permutations(pods))
    return things, least


@given(clusters())
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_gang_is_placed_in_part(cluster: tuple[list[Plain], dict[str, int]]) -> None:
    things, least = cluster
    found = manifests([Source("things", stream(*things), named=True)])
    fleet = read_fleet(found, Defaults())
    before = {name: len(state.ledger.problems()) for name, state in fleet.nodes.items()}

    run = Run(fleet, RunOptions(Defaults(), 0))
    lines = [*run.place_all()]

    gangs = Counter[str]()
    new = Counter[str]()
    for line in lines:
        if line.gang is not None:
            name = line.gang.name.removeprefix("default/")
            assert line.gang.minimum == least[name] > 1
            has = line.result in (PodResult.PLACED, PodResult.BOUND)
            gangs[name] += has or line.summary == "requests no share"
            new[name] += line.result is PodResult.PLACED
    for name in new:
        if new[name]:
            event("a gang is placed")
            assert gangs[name] >= least[name]
    for ledger in run.inventory:
        assert len(ledger.problems()) == before[ledger.node.name]
