"""The dashboard in a real browser, on a real service with 5,000 nodes of eight cards."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, Route, expect

from adapters.repairs.repairs import LOST_WHY as WHY
from adapters.service.tests.process import Running, serving
from adapters.service.web.dashboard.tests import fleet
from adapters.service.web.dashboard.tests.browser import Visit, chromium, executable
from adapters.service.web.dashboard.tests.proxy import below
from core.hardware.node import Node
from core.ledger.node_ledger import NodeLedger
from core.ledger.problem import ProblemKind
from core.requests.grant import KUBELET_CHOOSES, Grant

NODES = 5000
TOTAL = NODES + 3  # those of the example

HUGE = "huge"
"""A waiting pod that fits no node."""

SCROLLED = """new Promise((done) => {
    if (scrollY > 0) done();
    addEventListener("scroll", () => done(), { once: true });
})"""
"""Waits for the first scrolling. ``wait_for_function`` needs ``eval``, which the page forbids."""

pytestmark = pytest.mark.timeout(300)

Visiting = Callable[..., Visit]

VIEWS = {
    "overview": "#/overview",
    "nodes": "#/nodes",
    "node": f"#/node/{fleet.UNREAD}",
    "pods": "#/pods",
    "pod": "#/pod/default/volcano-too-large",
    "pending": "#/pending",
    "decisions": "#/decisions",
}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    executable()
    folder = tmp_path_factory.mktemp("fleet")
    fleet.write(folder / "fleet.db", range(NODES))
    with serving(folder, "--store", f"sqlite:{folder / 'fleet.db'}") as running:
        create(running, HUGE, 900_000)
        pod = running.get("/local/pods/default/volcano-too-large")
        refused = running.get("/extender/filter", {"Pod": pod, "NodeNames": ["metax-1"]})
        assert refused["FailedAndUnresolvableNodes"]
        yield running


@pytest.fixture(scope="module")
def browser(service: Running) -> Iterator[Browser]:  # noqa: ARG001 (begins before Playwright's loop)
    with chromium() as browser:
        yield browser


@pytest.fixture
def visiting(browser: Browser) -> Iterator[Visiting]:
    """Open tabs, which must have logged no error when the test ends."""
    visits: list[Visit] = []

    def visit(address: str, **options: Any) -> Visit:
        visits.append(Visit(browser, address, **options))
        return visits[-1]

    yield visit
    for each in visits:
        each.close()
    assert [error for each in visits for error in each.errors] == []


@pytest.fixture
def visit(visiting: Visiting, service: Running) -> Visit:
    return visiting(service.address)


def names(page: Page) -> list[str]:
    nodes = page.locator("[data-node]")
    return [each.get_attribute("data-node") or "" for each in nodes.all()]


def create(service: Running, name: str, memory: int) -> None:
    limits = {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": memory}
    pod = {
        "metadata": {"name": name, "uid": f"uid-{name}"},
        "spec": {"containers": [{"name": "main", "resources": {"limits": limits}}]},
    }
    service.get("/local/pods", pod)


def bind(service: Running, name: str, node: str) -> None:
    create(service, name, 1000)
    named = {"PodName": name, "PodNamespace": "default", "PodUID": f"uid-{name}", "Node": node}
    assert not service.get("/extender/bind", named)["Error"]


def test_it_shows_5000_nodes_with_problems_first_one_page_at_a_time(visit: Visit) -> None:
    page = visit.open("#/nodes")

    assert page.inner_text("#count") == "1 to 25 of 5,003"
    assert page.inner_text("#sum") == f"{TOTAL:,} nodes · 39,999 cards"
    assert names(page)[:4] == [fleet.OVER, fleet.UNREAD, fleet.SICK, fleet.BROKEN]
    assert len(names(page)) == 25
    assert page.locator("*").count() < 6000
    visit.picture("nodes")

    page.get_by_label("Next page").first.click()
    expect(page.locator("#count")).to_have_text("26 to 50 of 5,003")
    page.go_back()
    expect(page.locator("#count")).to_have_text("1 to 25 of 5,003")


def test_search_filters_and_sort_find_any_node_and_the_address_keeps_them(visit: Visit) -> None:
    page = visit.open("#/nodes")

    page.get_by_role("searchbox").fill("node-04999")
    expect(page.locator("#count")).to_have_text("1 to 1 of 1")
    assert names(page) == ["node-04999"]

    page.get_by_role("button", name="Clear filters").click()
    expect(page.locator("#count")).to_have_text("1 to 25 of 5,003")
    expect(page.get_by_role("searchbox")).to_have_value("")

    page.locator("[name=model]").select_option("NVIDIA A10")
    page.locator("[name=namespace]").select_option("research")
    page.locator("[name=dialect]").select_option("hami")
    page.locator("[name=health]").select_option("healthy")
    page.locator("[name=free]").fill("23.5")
    page.locator("[name=sort]").select_option("free")
    with page.expect_response(
        lambda answer: (
            "/nodes?" in answer.url and "freeMiB=" in answer.url and "order=reverse" in answer.url
        )
    ) as answered:
        page.locator("[name=order]").select_option("reverse")
    total = answered.value.json()["total"]
    expect(page.locator("#count")).to_have_text(f"1 to 25 of {total:,}")
    page.wait_for_url("**order=reverse*")
    expect(page.locator("article.sick")).to_have_count(0)
    models = page.locator(".facts > span:first-child").all_text_contents()
    assert set(models) == {"NVIDIA A10"}
    found = page.inner_text("#count")

    page.reload()
    visit.drawn()
    assert page.inner_text("#count") == found
    expect(page.locator("[name=sort]")).to_have_value("free")


def test_filters_that_change_in_quick_succession_all_count(visit: Visit) -> None:
    page = visit.open("#/nodes")

    page.locator("form.filters").evaluate(
        """form => {
            const chosen = [["free", "23.5"], ["sort", "free"], ["order", "reverse"]];
            for (const [name, value] of chosen) {
                form.elements[name].value = value;
                form.elements[name].dispatchEvent(new Event("input", {bubbles: true}));
                form.elements[name].value = ""; // as an answer to an earlier question draws it
            }
        }"""
    )

    expect(page).to_have_url(re.compile("free=23.5&sort=free&order=reverse$"))
    expect(page.locator("[name=free]")).to_have_value("23.5")


def test_nothing_found_is_a_sentence(visit: Visit) -> None:
    page = visit.open("#/nodes?q=no-such-node")

    assert "No node matches these filters." in page.inner_text("main")


def test_a_node_has_a_page_with_its_problems_cards_pods_and_no_made_up_usage(visit: Visit) -> None:
    page = visit.open(f"#/nodes?q={fleet.UNREAD}")
    page.get_by_role("link", name=fleet.UNREAD, exact=True).click()
    expect(page.get_by_role("heading", name=fleet.UNREAD, level=2)).to_be_visible()

    text = page.inner_text("main")
    assert "gpu-devices-allocated: 'x': is no list of devices" in text
    assert f"GPU-{fleet.UNREAD}-7" in text
    assert "Used memory is not known to the service" in text
    blocked = page.locator(f'[data-card="GPU-{fleet.UNREAD}-1"]')
    assert "blocked, 64 GiB" in blocked.inner_text()
    assert "blocked by" in (blocked.get_by_role("img").get_attribute("aria-label") or "")
    visit.picture("node")


def test_the_legend_explains_what_is_on_the_screen_and_folds(visit: Visit) -> None:
    legend = visit.open("#/nodes").locator("details.folds")

    text = legend.inner_text()
    for shown in ("volcano", "koordinator", "hami", "free", "blocked: the record cannot be read"):
        assert shown in text
    for absent in ("metax", "reserved", "exclusive", "used, by"):
        assert absent not in text
    legend.locator("summary").click()
    expect(legend.locator(".legend")).to_be_hidden()


def test_a_pod_has_a_page_with_its_cards(visit: Visit) -> None:
    pod = f"{fleet.OVER}-90"
    page = visit.open(f"#/pods?q={pod}")
    page.get_by_role("link", name=re.compile(pod)).click()
    expect(page.get_by_role("heading", name=re.compile(pod))).to_be_visible()

    text = page.inner_text("main")
    assert f"GPU-{fleet.OVER}-0" in text
    assert "18 GiB" in text


def test_a_pending_pod_has_its_reason_and_an_explanation_over_all_nodes(visit: Visit) -> None:
    page = visit.open("#/pending")
    row = page.get_by_role("row").filter(has_text=f"default/{HUGE}")
    expect(row).to_contain_text("GiB short; ", timeout=90_000)  # at a twentieth of a processor
    expect(row).to_contain_text(" ago")
    visit.picture("pending")

    row.get_by_role("link").click()
    explained = page.locator("[data-key=explained]")
    expect(explained).to_contain_text("Nodes that do not fit:")
    expect(explained).to_contain_text("GiB short")
    visit.picture("pod")


def test_decisions_have_a_time_and_lead_to_pod_and_node(visit: Visit, service: Running) -> None:
    bind(service, "decided", "nvidia-1")
    page = visit.open("#/decisions?q=decided")

    row = page.get_by_role("row").filter(has_text="bound")
    assert re.match(r"\d{4}-\d\d-\d\dT", row.locator("time").get_attribute("datetime") or "")
    row.get_by_role("link", name="nvidia-1").click()
    expect(page.get_by_role("heading", name="nvidia-1")).to_be_visible()
    expect(page.locator("main")).to_contain_text("default/decided")
    visit.picture("decisions")


def test_a_decision_about_a_claim_leads_to_the_claim_and_its_pods(visit: Visit) -> None:
    """The decision is one of the arbiter; this service has no API server that asks about claims."""
    claim = {
        "decision": "x-1",
        "time": "2026-11-23T10:00:00.000+00:00",
        "verb": "claim",
        "outcome": "refused",
        "pod": "team/c",
        "uid": "u",
        "dialect": "dra",
        "node": "n1",
        "text": "quota of namespace team: memory 2 GiB short (4 GiB of 6 GiB used)",
        "consumers": ["team/p", "team/q"],
    }
    answer = {"total": 1, "rows": [claim], "replica": "r", "since": claim["time"]}
    visit.page.route("**/api/dashboard/decisions*", lambda route: route.fulfill(json=answer))
    page = visit.open("#/decisions")

    row = page.get_by_role("row").filter(has_text="claim")

    expect(row).to_contain_text("team/c (team/p, team/q)")
    assert [link.inner_text() for link in row.get_by_role("link").all()] == [
        "team/c",
        "team/p",
        "team/q",
        "n1",
    ]


def test_a_refresh_keeps_selection_focus_scroll_and_what_is_typed(
    visit: Visit, service: Running
) -> None:
    bind(service, "shown", "nvidia-1")  # the second pod of a card makes its row higher
    page = visit.open("#/nodes?q=-1&sort=name&order=reverse")
    page.evaluate("window.kept = document.querySelector('[data-node=\"nvidia-1\"]')")
    page.evaluate(
        "() => { const text = document.querySelector('[data-node] h3 a').firstChild;"
        " getSelection().setBaseAndExtent(text, 0, text, 4); }"
    )
    page.get_by_role("link", name="nvidia-1", exact=True).focus()
    page.mouse.wheel(0, 400)
    page.evaluate(SCROLLED)
    before = page.evaluate("[scrollY, String(getSelection())]")

    bind(service, "fresh", "nvidia-1")
    visit.again()
    expect(page.locator('[data-node="nvidia-1"]')).to_contain_text("default/fresh")

    assert page.evaluate("[scrollY, String(getSelection())]") == before
    assert page.evaluate("document.activeElement.textContent") == "nvidia-1"
    assert page.evaluate("window.kept.isConnected")

    page.get_by_role("searchbox").focus()
    page.evaluate("document.activeElement.value = 'half a wo'")
    bind(service, "fresher", "nvidia-1")
    visit.again()
    expect(page.locator('[data-node="nvidia-1"]')).to_contain_text("default/fresher")
    assert page.evaluate("document.activeElement.value") == "half a wo"


def test_an_unchanged_refresh_has_no_body_and_changes_nothing(visit: Visit) -> None:
    with visit.page.expect_response("**/api/dashboard/used*"):  # once, after the first drawing
        page = visit.open("#/nodes")
    session = page.context.new_cdp_session(page)
    session.send("Network.enable")
    answers: list[Any] = []
    session.on("Network.responseReceived", lambda event: answers.append(event["response"]))
    page.evaluate(
        "window.changes = 0;"
        " new MutationObserver(all => window.changes += all.length)"
        ".observe(document.getElementById('main'),"
        " {subtree: true, childList: true, attributes: true, characterData: true})"
    )
    for _ in range(10):
        with page.expect_response("**/api/dashboard/nodes*") as nodes:
            visit.again()
        assert nodes.value.status == 304

    assert page.evaluate("window.changes") == 0
    while len(answers) < 20:
        page.evaluate("0")
    assert {answer["status"] for answer in answers} == {304}
    assert max(answer["encodedDataLength"] for answer in answers) < 400


def test_the_first_view_is_small_and_has_few_elements(visit: Visit) -> None:
    """A square for each of 40,000 cards is no element of the page."""
    session = visit.page.context.new_cdp_session(visit.page)
    session.send("Network.enable")
    sizes: list[float] = []
    session.on("Network.loadingFinished", lambda event: sizes.append(event["encodedDataLength"]))

    page = visit.open()

    assert 5_000 < sum(sizes) < 120_000
    assert page.locator("*").count() < 500


def test_a_paused_page_and_a_hidden_one_do_not_ask(visit: Visit) -> None:
    page = visit.open("#/nodes")
    page.get_by_role("button", name="Pause").click()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))

    expect(page.locator("#live")).to_contain_text("Paused at")
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    assert asked == []

    with page.expect_request("**/api/dashboard/summary"):
        page.get_by_role("button", name="Resume").click()


def test_a_service_that_is_gone_leaves_a_page_that_is_marked_as_stale(
    visiting: Visiting, tmp_path: Path
) -> None:
    with serving(tmp_path, "--store", "memory") as running:
        visit = visiting(running.address)
        page = visit.open("#/nodes")
        running.process.kill()
        running.process.wait()
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        page.wait_for_selector("body[data-state=stale]")

    banner = page.get_by_role("alert")
    expect(banner).to_contain_text("STALE: the service has not answered since")
    expect(page.locator("#live")).to_contain_text("Stale since")
    assert "grayscale" in page.locator("main").evaluate("main => getComputedStyle(main).filter")
    assert len(names(page)) == 3
    visit.picture("stale")
    visit.errors[:] = [each for each in visit.errors if "ERR_CONNECTION_REFUSED" not in each]


def test_a_service_without_nodes_says_what_to_do(visiting: Visiting, tmp_path: Path) -> None:
    with serving(tmp_path, "--store", "memory", inventory=None) as running:
        visit = visiting(running.address)
        page = visit.open()

        text = page.inner_text("main")
        visit.picture("empty")
        assert "No node with cards is known yet." in text
        assert "No node with cards" in visit.open("#/nodes").inner_text("main")
        assert "dragoman doctor" in text
        assert "No pod waits for cards." in visit.open("#/pending").inner_text("main")
        assert "No decision was made" in visit.open("#/decisions").inner_text("main")
        assert "No pod has cards." in visit.open("#/pods").inner_text("main")


@pytest.mark.parametrize(
    ("route", "text"),
    [
        ("#/nodes?sort=size", "sort: 'size': must be one of"),
        ("#/node/none", "node 'none' is not known to this service"),
        ("#/pod/default/none", "pod 'default/none' is not known to this service"),
    ],
)
def test_an_answer_that_is_an_error_is_shown_with_its_sentence(
    visit: Visit, route: str, text: str
) -> None:
    page = visit.open(route)

    assert text in page.get_by_role("alert").last.inner_text()
    visit.picture("error")
    visit.errors[:] = [each for each in visit.errors if "Failed to load resource" not in each]


def test_a_page_without_an_answer_yet_says_that_it_loads(visit: Visit) -> None:
    held: list[Route] = []
    visit.page.route("**/api/dashboard/**", lambda route: held.append(route))
    visit.page.goto(f"{visit.address}/#/nodes")
    visit.page.wait_for_selector("main[aria-busy] [data-key=start]")

    assert "Loading" in visit.page.inner_text("main")
    visit.picture("loading")
    while len(held) < 2:
        visit.page.evaluate("0")
    for each in held:
        each.continue_()
    assert len(names(visit.drawn())) == 25
    visit.page.unroute_all(behavior="ignoreErrors")


def test_a_service_that_never_answered_is_an_error_and_is_asked_again(visit: Visit) -> None:
    visit.page.route("**/api/dashboard/**", lambda route: route.abort())
    visit.page.goto(f"{visit.address}/#/nodes")
    expect(visit.page.get_by_role("alert")).to_contain_text("The service does not answer")

    visit.page.unroute("**/api/dashboard/**")
    visit.page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    assert len(names(visit.drawn())) == 25
    expect(visit.page.get_by_role("alert")).to_be_empty()
    visit.errors[:] = [each for each in visit.errors if "ERR_FAILED" not in each]


def test_it_works_below_a_path_of_a_proxy(visiting: Visiting, service: Running) -> None:
    with below("/tools/gpu", service.port) as address:
        visit = visiting(address)
        page = visit.open("#/nodes")
        page.get_by_role("link", name=fleet.OVER, exact=True).click()
        expect(page.get_by_role("heading", name=fleet.OVER, level=2)).to_be_visible()
        assert page.url.startswith(f"{address}/#/node/")
        visit.close()


def test_it_is_chinese_for_a_chinese_browser_and_by_choice(
    visiting: Visiting, visit: Visit, service: Running
) -> None:
    chinese = visiting(service.address, locale="zh-CN")
    page = chinese.open("#/nodes")
    assert page.get_by_role("heading", name="节点").is_visible()
    assert page.locator("html").get_attribute("lang") == "zh-CN"
    chinese.picture("chinese")
    reason = chinese.open("#/pending").get_by_text("个节点都不可用").first
    expect(reason).to_be_visible(timeout=30_000)
    assert " nodes fit: " in (reason.get_attribute("title") or "")

    page = visit.open("#/nodes")
    page.get_by_label("Language").select_option("zh")
    expect(page.get_by_role("link", name="等待中")).to_be_visible()
    expect(page.locator("#count")).to_contain_text("第 1 至 25 项")
    page.reload()
    assert "个节点" in visit.drawn().inner_text("#sum")


@pytest.mark.parametrize("view", VIEWS)
def test_a_phone_shows_everything_without_scrolling_sideways(
    visiting: Visiting, service: Running, view: str
) -> None:
    visit = visiting(service.address, viewport={"width": 390, "height": 844}, is_mobile=True)
    page = visit.open(VIEWS[view])

    width = "[document.documentElement.scrollWidth, innerWidth]"
    scrolled, inner = page.evaluate(width)
    assert scrolled <= inner == 390
    visit.picture(f"phone-{view}")
    if view == "nodes":
        card = page.locator(".card").first
        for part in (".bar", ".memory", ".who"):
            assert card.locator(part).first.is_visible()


def test_it_can_be_used_with_the_keyboard_alone(visit: Visit) -> None:
    page = visit.open("#/nodes")
    focused = "document.activeElement.textContent"

    page.keyboard.press("Tab")
    assert page.evaluate(focused) == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"

    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.name") == "q"
    page.keyboard.type(fleet.SICK)
    expect(page.locator("#count")).to_have_text("1 to 1 of 1")
    for _ in range(12):
        page.keyboard.press("Tab")
        if page.evaluate(focused) == fleet.SICK:
            break
    assert page.evaluate(focused) == fleet.SICK
    style = "getComputedStyle(document.activeElement).outlineStyle"
    assert page.evaluate(style) == "solid"
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name=fleet.SICK, level=2)).to_be_visible()
    assert page.evaluate("document.activeElement.id") == "main"
    assert page.title() == f"{fleet.SICK} · Dragoman"


def test_a_slash_begins_a_search_and_is_a_character_in_it(visit: Visit) -> None:
    page = visit.open(f"#/nodes?q={fleet.SICK}")

    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.name") == "q"
    page.keyboard.type("default/decided")

    expect(page.get_by_role("searchbox")).to_have_value("default/decided")


def test_a_phone_folds_the_filters_and_says_how_many_are_set(
    visiting: Visiting, service: Running
) -> None:
    size = {"width": 390, "height": 844}
    page = visiting(service.address, viewport=size, is_mobile=True).open(
        "#/nodes?health=healthy&sort=free"
    )
    model, summary = page.locator("[name=model]"), page.locator(".filters summary")

    expect(page.get_by_role("searchbox")).to_be_visible()
    expect(summary).to_have_text("Filters (2)")
    expect(model).to_be_hidden()
    summary.click()
    expect(model).to_be_visible()
    page.get_by_role("button", name="Clear filters").click()
    expect(summary).to_have_text("Filters")
    expect(model).to_be_visible()

    page.set_viewport_size({"width": 1280, "height": 844})
    expect(summary).to_be_hidden()
    expect(model).to_be_visible()


def test_a_problem_names_cards_by_number_and_the_uuid_is_its_title(visit: Visit) -> None:
    problem = visit.open(f"#/node/{fleet.OVER}").locator(".problems li span").first

    assert problem.inner_text().startswith("card #0: 38 of 24 GiB are allocated: ")
    assert f"card GPU-{fleet.OVER}-0: 38.0 of" in (problem.get_attribute("title") or "")


def test_problems_are_chinese_for_a_chinese_browser(visiting: Visiting, service: Running) -> None:
    visit = visiting(service.address, locale="zh-CN")
    problem = visit.open(f"#/node/{fleet.OVER}").locator(".problems li span").first
    assert re.match(r"卡 #0.显存 24 GiB.已分配 38 GiB.", problem.inner_text())
    assert "are allocated" in (problem.get_attribute("title") or "")

    loaded = visit.page.evaluate("performance.getEntriesByType('resource').map(each => each.name)")
    (module,) = [name for name in loaded if re.search(r"/problems\b[^/]*\.js$", name)]
    for text in every_problem():
        made = visit.page.evaluate(
            "async ([module, text]) => (await import(module)).inChinese(text)", [module, text]
        )
        assert made is not None, text
        assert re.search(r"[\u4e00-\u9fff]", made), text


def every_problem() -> list[str]:
    """A sentence of each kind that a ledger has, and of each unread record without foreign text."""
    shares = (
        fleet.share("a", 60, compute=70, qos="fixed-share"),
        fleet.share("b", 60, compute=70, qos="best-effort"),
        replace(fleet.share("c", 1), grants=(Grant("main", "GPU-lost", 1, 0),)),
        replace(fleet.share("d", 1), unread=KUBELET_CHOOSES),
        replace(fleet.share("e", 1), unread=WHY),
        replace(fleet.share("f", 1), unread="runs on n1 without a record of its cards"),
    )
    ledger = NodeLedger.of(Node("n1", (fleet.CARD,)))
    for each in shares:
        ledger = ledger.adopt(each)
    found = [f"{each.pod}: {each.text}" if each.pod else each.text for each in ledger.problems()]
    assert {each.kind for each in ledger.problems()} >= {
        ProblemKind.MEMORY, ProblemKind.COMPUTE, ProblemKind.SLOTS, ProblemKind.CONFLICT,
        ProblemKind.UNKNOWN_CARD, ProblemKind.UNREADABLE,
    }  # fmt: skip
    return [*found, "ns/p: its containers exclude each other on GPU-1"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("view", VIEWS)
def test_axe_finds_no_serious_barrier(
    visiting: Visiting, service: Running, scheme: str, view: str
) -> None:
    visit = visiting(service.address, color_scheme=scheme)
    page = visit.open(VIEWS[view])
    if view == "pod":
        page.wait_for_selector("[data-key=explained]")

    found = Axe().run(page).response["violations"]

    visit.picture(f"{scheme}-{view}")
    serious = [each for each in found if each["impact"] in ("serious", "critical")]
    assert [(each["id"], [node["html"] for node in each["nodes"]][:3]) for each in serious] == []
