"""What is used, beside what is granted; agents are not trusted."""

from collections.abc import Mapping, Sequence

from adapters.service.tests.builders import Json, a_node, a_pod, a_service, body, run
from adapters.service.web.dashboard.rows import MAX_ROWS
from adapters.service.web.tests.calls import app_of, call
from adapters.wire.agent_report import ContainerReport, NodeReport, Use
from core.hardware.quantity import GIB, MIB

CARD = "GPU-n1-0"


class Reports:
    """Reports that are there already."""

    def __init__(self, **reports: NodeReport) -> None:
        self._reports = reports
        self.asked: list[Sequence[str]] = []

    async def reports(self, nodes: Sequence[str]) -> Mapping[str, NodeReport]:
        self.asked.append(nodes)
        return {node: self._reports[node] for node in nodes if node in self._reports}


def ask(names: str, agents: Reports | None) -> tuple[int, Json]:
    async def work() -> tuple[int, Json]:
        bench = await a_service(a_node("n1"), a_node("n2"), pods=[a_pod("p")])
        app = await app_of(bench, None if agents is None else agents.reports)
        bind = {"PodName": "p", "PodNamespace": "default", "PodUID": "uid-p", "Node": "n1"}
        assert await call(app, "POST", "/extender/bind", body(bind)) is not None
        got = await call(app, "GET", f"/api/dashboard/used?nodes={names}")
        assert got is not None
        return got.status, got.json

    return run(work())


def held_card() -> str:
    async def work() -> str:
        bench = await a_service(a_node("n1"), pods=[a_pod("p")])
        app = await app_of(bench)
        bind = {"PodName": "p", "PodNamespace": "default", "PodUID": "uid-p", "Node": "n1"}
        assert await call(app, "POST", "/extender/bind", body(bind)) is not None
        (ledger,) = bench.service.ledgers.inventory
        (allocation,) = ledger.allocations.values()
        return allocation.grants[0].card

    return run(work())


def used_by(pod: str, card: str, used: int) -> ContainerReport:
    return ContainerReport(pod, "main", card, used=used)


def test_only_known_nodes_of_the_question_are_asked() -> None:
    agents = Reports()

    status, found = ask("n2,n1,none,n1", agents)

    assert (status, found) == (200, {"asked": True, "nodes": {}})
    assert agents.asked == [["n1", "n2"]]


def test_cards_have_the_drivers_figure_and_pods_that_of_their_containers() -> None:
    card = held_card()
    shares = used_by("default/p", card, GIB), used_by("default/p", card, GIB)
    report = NodeReport(shares, {card: Use(3 * GIB, 40), CARD: Use(None, 7)})

    _, found = ask("n1,n2", Reports(n1=report))

    whole = {"memoryMiB": 8192}
    cards = {
        card: {**whole, "usedMiB": 3072, "compute": 40},
        CARD: {**whole, "usedMiB": None, "compute": 7},
    }
    assert found["nodes"] == {"n1": {"cards": cards, "pods": {"default/p": {card: 2048}}}}


def test_what_the_ledger_does_not_have_is_left_out_and_no_amount_exceeds_its_card() -> None:
    card = held_card()
    shares = (
        used_by("default/p", card, 1 << 63),
        used_by("default/p", card, 1 << 63),
        used_by("default/p", "GPU-of-another-node", GIB),
        used_by("default/stranger", card, GIB),
    )
    report = NodeReport(shares, {card: Use(1 << 63, 1 << 40), "GPU-of-another-node": Use(1, 1)})

    _, found = ask("n1", Reports(n1=report))

    whole = 8192 * MIB // MIB
    assert found["nodes"]["n1"] == {
        "cards": {
            card: {"memoryMiB": whole, "usedMiB": whole, "compute": 100},
            CARD: {"memoryMiB": whole, "usedMiB": None, "compute": None},
        },
        "pods": {"default/p": {card: whole}},
    }


def test_without_agents_the_page_learns_that_none_is_asked() -> None:
    assert ask("n1", None) == (200, {"asked": False, "nodes": {}})


def test_too_many_names_are_an_error_that_says_how_many_may_be() -> None:
    status, found = ask(",".join(f"n{number}" for number in range(MAX_ROWS + 1)), Reports())

    assert status == 400
    assert found["error"] == "nodes: 201 names: must be 200 or fewer"
