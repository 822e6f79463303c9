"""Plans of moves on the dashboard: what is asked, what is shown, and what nothing breaks."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from xml.etree import ElementTree

import msgspec
import pytest

from adapters.cluster.objects.move_plans import MovePlanClient
from adapters.cluster.tests.server import Reply, Request, client, ok, refusal, serving
from adapters.service.tests.builders import Bench, Json, a_node, a_service, run
from adapters.service.web.app import App
from adapters.service.web.dashboard import moves as move_views
from adapters.service.web.dashboard.moves import FRESH, PlanReader, PlanSource
from adapters.service.web.dashboard.tests.plans import a_move, a_plan, place
from adapters.service.web.tests.calls import Got, app_of, call
from adapters.stores.store import Change, Stored
from adapters.wire.records.move_plan import MovePlanObject
from core.hardware.node import Node
from core.hardware.quantity import GIB
from core.ledger.node_ledger import Hold, NodeLedger
from core.requests.grant import Allocation, Grant

SVG = "{http://www.w3.org/2000/svg}"
MOVES, COMES, STAYS = "#e8833a", "#2f9e63", "#9aa5b1"
A, B = place("n1", "GPU-n1-0"), place("n2", "GPU-n2-0")


class Plans:
    """Plans that are there already, and how often they were listed."""

    def __init__(self, *plans: Json) -> None:
        self.plans = [msgspec.json.decode(json.dumps(each), type=MovePlanObject) for each in plans]
        self.listed = 0

    async def list(self) -> Sequence[MovePlanObject]:
        self.listed += 1
        return self.plans


async def get(app: App, path: str) -> Got:
    got = await call(app, "GET", f"/api/dashboard/{path}")
    assert got is not None
    return got


def ask(path: str, *plans: Json, held: Sequence[Allocation] = (), kept: Sequence[Hold] = ()) -> Got:
    async def work() -> Got:
        bench = await a_service(a_node("n1"), a_node("n2"))
        allocate(bench, held, kept)
        return await get(await app_of(bench, plans=Plans(*plans).list), path)

    return run(work())


def allocate(bench: Bench, held: Sequence[Allocation], kept: Sequence[Hold]) -> None:
    for ledger in [*bench.service.ledgers.inventory]:
        name, changed = ledger.node.name, ledger
        for each in held:
            changed = changed.adopt(each) if each.node == name else changed
        changed = changed.hold(*(each for each in kept if each.allocation.node == name))
        put(bench, changed)


def put(bench: Bench, ledger: NodeLedger) -> None:
    stored = Stored(ledger, str(ledger.version))
    bench.service.ledgers.put(Change(ledger.node.name, stored))


def an_allocation(uid: str, pod: str, node: str, card: int = 0) -> Allocation:
    grant = Grant("main", f"GPU-{node}-{card}", 2 * GIB, 0)
    return Allocation(uid, pod, "volcano", node, (grant,))


def drawn(got: Got) -> list[tuple[str | None, str | None]]:
    """The shares of a picture: pod and color, row by row, before and after."""
    assert (got.status, got.headers[b"content-type"]) == (200, b"image/svg+xml")
    root = ElementTree.fromstring(got.content)  # noqa: S314 - our own
    return [
        (title.text, rect.get("fill"))
        for rect in root.iter(f"{SVG}rect")
        for title in rect.iter(f"{SVG}title")
    ]


def test_without_plans_the_page_learns_it_and_there_is_no_question_to_ask() -> None:
    async def work() -> tuple[Got, Got, Got]:
        app = await app_of(await a_service())
        return await get(app, "summary"), await get(app, "moves"), await get(app, "picture?plan=x")

    summary, moves, picture = run(work())

    assert summary.json["moves"] is False
    assert (moves.status, picture.status) == (404, 404)


def test_the_newest_plans_are_first_and_each_has_how_far_it_is() -> None:
    steps = [
        {"step": 1, "evictedAt": "2026-11-26T10:01:00Z", "replacement": "b", "skipped": False,
         "readyAt": "2026-11-26T10:02:00Z"},
        {"step": 2, "evictedAt": "2026-11-26T10:03:00Z"},
        {"step": 3, "skipped": True, "evictedAt": "2026-11-26T10:04:00Z"},
        {"step": 4, "begunAt": "2026-11-26T10:05:00Z", "mover": "m"},
    ]  # fmt: skip
    status: Json = {"phase": "Evict", "step": 4, "reason": "waits", "steps": steps}
    moves = [a_move(f"a{number}", A, B) for number in range(5)]
    under_way = a_plan("under-way", moves, at=1, updatedAt="2026-11-26T10:06:00Z", **status)
    stopped = a_plan("stopped", moves[:1], at=2, phase="Stopped", reason="no")

    found = ask("moves", under_way, stopped).json

    assert (found["total"], found["problem"]) == (2, "")
    newest, other = found["rows"]
    assert (newest["name"], newest["phase"], newest["reason"]) == ("stopped", "Stopped", "no")
    assert [each["state"] for each in newest["moves"]] == ["stays"]
    assert (other["step"], len(other["moves"]), other["problem"]) == (4, 5, "")
    assert (other["created"], other["updated"]) == ("2026-11-26T10:01:00Z", "2026-11-26T10:06:00Z")
    assert [(each["state"], (each["at"] or "")[11:16]) for each in other["moves"]] == [
        ("ready", "10:02"),
        ("evicted", "10:03"),
        ("skipped", "10:04"),
        ("evicting", "10:05"),
        ("waits", ""),
    ]
    first = other["moves"][0]
    assert (first["pod"], first["from"], first["to"]) == ("web/a0", "n1", "n2")
    assert first["replacement"] == "web/b"


def test_ten_plans_are_on_a_page() -> None:
    plans = [a_plan(f"p{number:02}", [a_move("a", A, B)]) for number in range(12)]

    first, second, wrong = (
        ask("moves", *plans),
        ask("moves?offset=10", *plans),
        ask("moves?offset=x"),
    )

    assert [len(each.json["rows"]) for each in (first, second)] == [10, 2]
    assert [each["name"] for each in second.json["rows"]] == ["p01", "p00"]
    assert (wrong.status, wrong.json["error"][:12]) == (400, "offset: 'x':")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"spec": []}, "MovePlan bad: spec cannot be read"),
        ({"spec": {"moves": [a_move("<b>", A, B)]}}, "MovePlan bad: spec cannot be read"),
        ({"spec": {"moves": [a_move("a", A, B)] * 2}}, "a plan moves each pod once"),
        ({"status": {"phase": "Done"}}, "MovePlan bad: status cannot be read"),
        ({"status": 7}, "MovePlan bad: status cannot be read"),
        ({"spec": {"moves": [a_move("a", place("none", "G"), B)]}}, "no ledger of node none"),
    ],
)
def test_a_plan_that_cannot_be_used_says_why_and_the_others_are_shown(
    change: Json, problem: str
) -> None:
    bad = {**a_plan("bad", [a_move("a", A, B)], at=1), **change}

    found = ask("moves", bad, a_plan("good", [a_move("a", A, B)])).json["rows"]

    assert problem in found[0]["problem"]
    assert (found[1]["name"], found[1]["problem"]) == ("good", "")


def test_times_that_are_none_and_texts_with_controls_are_shown_as_what_they_are() -> None:
    times = ["yesterday", "2026-W01-1", "0001-01-01T00:00:00+23:59", "2026-11-26T10:00:00"]
    plans = [
        a_plan(f"p{number}", [a_move("a", A, B)], reason="\x1b[31m\u202e", updatedAt=each)
        for number, each in enumerate(times)
    ]

    rows = ask("moves", *plans).json["rows"]

    assert [each["updated"] for each in rows] == [None] * 4
    assert rows[0]["reason"] == "\\x1b[31m\\u202e"


def test_a_picture_has_the_plan_before_and_after_and_the_others_as_they_are_now() -> None:
    target = {"kind": "Pod", "namespace": "ml", "name": "big", "uid": "big", "afterStep": 1}
    share = {"kind": "Share", "name": "share of 1 GiB", "afterStep": 1, "place": B}
    plan = a_plan("p", [a_move("a", A, B)], [{**target, "place": A}, share])
    resident = an_allocation("r", "web/r", "n1")

    shares = drawn(ask("picture?plan=p", plan, held=[resident]))

    assert shares == [
        ("web/a", MOVES),
        ("web/r", STAYS),
        ("ml/big", COMES),
        ("web/r", STAYS),
        ("web/a", MOVES),
        ("share of 1 GiB", COMES),
    ]


def test_a_picture_shows_each_pod_of_the_plan_once_whichever_step_is_done() -> None:
    steps = [{"step": 1, "replacement": "came"}, {"step": 9, "replacement": "r"}]
    plan = a_plan("p", [a_move("a", A, B)], steps=steps)
    leaves, came = an_allocation("uid-a", "web/a", "n1"), an_allocation("new", "web/came", "n2")
    took = an_allocation("took", "web/took", "n2", 1)
    taken = Hold("uid-p", "", by_name=False, allocation=replace(took, uid="h1"), taken_by="took")
    kept = replace(taken, allocation=replace(took, uid="h2"), taken_by="")
    of_another = replace(kept, plan="uid-o", allocation=an_allocation("h3", "web/o", "n1", 1))

    got = ask("picture?plan=p", plan, held=[leaves, came, took], kept=[taken, kept, of_another])

    assert drawn(got) == [("web/a", MOVES), ("web/o", STAYS), ("web/o", STAYS), ("web/a", MOVES)]


def test_a_picture_escapes_every_name_and_is_inert() -> None:
    hostile = "</title><script>alert(1)</script>&\x00\ufffe"
    target = {"kind": "Share", "name": hostile, "afterStep": 0, "place": A}
    resident = an_allocation("r", f"web/{hostile}", "n1")

    got = ask("picture?plan=p", a_plan("p", [a_move("a", A, B)], [target]), held=[resident])

    shown = "</title><script>alert(1)</script>&\\x00\\ufffe"
    assert {name for name, _ in drawn(got)} == {shown, f"web/{shown}", "web/a"}
    assert b"<script" not in got.content
    assert got.headers[b"content-security-policy"] == b"default-src 'none'; sandbox"


def test_amounts_of_any_size_and_a_card_without_memory_are_drawn() -> None:
    huge = place("n1", "GPU-n1-0", 1 << 28), place("n2", "GPU-none", 1)

    async def work() -> Got:
        bench = await a_service(a_node("n1"), a_node("n2"))
        (first, _) = bench.service.ledgers.inventory
        cards = tuple(replace(card, memory=0) for card in first.node.cards)
        put(bench, NodeLedger.of(Node("n1", cards)))
        plan = a_plan("p", [a_move("a", *huge), a_move("b", huge[0], huge[0])])
        return await get(await app_of(bench, plans=Plans(plan).list), "picture?plan=p")

    assert [name for name, _ in drawn(run(work()))] == ["web/a", "web/b", "web/b"]


def test_there_is_no_picture_of_a_plan_that_is_unknown_or_invalid() -> None:
    invalid = {**a_plan("bad", []), "spec": []}

    assert [ask(f"picture?plan={name}", invalid).status for name in ("bad", "none")] == [404, 404]


def test_the_name_of_a_pictures_state_differs_when_a_ledger_has_changed() -> None:
    plan = a_plan("p", [a_move("a", A, B)])

    before, after = ask("moves", plan), ask("moves", plan, held=[an_allocation("r", "web/r", "n1")])

    states = [each.json["rows"][0]["picture"] for each in (before, after)]
    assert states[0] != states[1]


def test_the_api_server_is_asked_once_in_five_seconds_for_all_questions() -> None:
    async def work() -> None:
        plans, now = Plans(a_plan("p", [])), [0.0]
        reader = PlanReader(plans.list, lambda: now[0])
        await asyncio.gather(*(reader.read() for _ in range(3)))
        now[0] += FRESH - 0.1
        await reader.read()
        assert plans.listed == 1

        now[0] += 0.1
        await reader.read()
        assert plans.listed == 2

    run(work())


def test_a_question_that_is_given_up_does_not_end_that_of_others() -> None:
    async def work() -> None:
        goes_on, plans = asyncio.Event(), Plans(a_plan("p", []))

        async def slow() -> Sequence[MovePlanObject]:
            await goes_on.wait()
            return await plans.list()

        reader = PlanReader(slow)
        first, second = (asyncio.create_task(reader.read()) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        goes_on.set()
        assert len((await second).plans) == 1

    run(work())


def test_an_api_server_that_refuses_or_stalls_is_said_and_other_views_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(move_views, "PATIENCE", 0.2)

    async def stalls(_: Request, reply: Reply) -> None:
        await reply.begin()
        await asyncio.sleep(60)

    async def shown(source: PlanSource) -> Json:
        app = await app_of(await a_service(a_node("n1")), plans=source)
        moves, nodes = await asyncio.gather(get(app, "moves"), get(app, "nodes"))
        assert nodes.json["total"] == 1
        return moves.json

    async def work() -> list[Json]:
        found = []
        for step in (refusal(403, {"message": "not allowed"}), stalls, ok({"items": 7})):
            async with serving(step) as server, client(server) as api:
                found.append(await shown(MovePlanClient(api).list))
        return found

    refused, stalled, garbage = run(work())

    assert (refused["rows"], refused["total"]) == ([], 0)
    assert "not allowed" in refused["problem"]
    assert stalled["problem"] == "no answer in 0 s"
    assert garbage["problem"]
