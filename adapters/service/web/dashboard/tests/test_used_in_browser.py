"""Used memory beside granted memory, in a real browser, with node agents that answer over HTTP."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, expect

from adapters.service.tests.process import Running, serving
from adapters.service.web.dashboard.tests.agents import Agents, agents
from adapters.service.web.dashboard.tests.browser import chromium, executable, visiting
from core.hardware.quantity import GIB

pytestmark = pytest.mark.timeout(300)

NODE = "nvidia-1"
CARD = "GPU-a1000a10-0000-4000-8000-000000000001"
POD = "default/measured"
STOPS, STOPS_CARD = "lab-1", "GPU-1ab01ab0-0000-4000-8000-000000000000"
"""A node whose agent only one test stops, because tests run in any order."""


@pytest.fixture(scope="module")
def reports() -> Iterator[Agents]:
    with agents() as found:
        yield found


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, reports: Agents) -> Iterator[Running]:
    executable()
    folder = tmp_path_factory.mktemp("used")
    with serving(folder, "--store", "memory", code=reports.program) as running:
        limits = {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 4096}
        container = {"name": "main", "resources": {"limits": limits}}
        pod = {"metadata": {"name": "measured", "uid": "m"}, "spec": {"containers": [container]}}
        running.get("/local/pods", pod)
        named = {"PodName": "measured", "PodNamespace": "default", "PodUID": "m", "Node": NODE}
        assert not running.get("/extender/bind", named)["Error"]
        (card,) = [each for each in running.get(f"/api/cards?node={NODE}") if shares(each)]
        assert card["uuid"] == CARD
        reports.report(NODE, {CARD: 3 * GIB}, {(POD, CARD): 2 * GIB})
        reports.report(STOPS, {STOPS_CARD: GIB}, {})
        yield running


def shares(card: Any) -> bool:
    return POD in str(card)


@pytest.fixture(scope="module")
def browser(service: Running) -> Iterator[Browser]:  # noqa: ARG001 (begins before Playwright's loop)
    with chromium() as browser:
        yield browser


def test_the_map_shows_what_is_used_of_each_card(browser: Browser, service: Running) -> None:
    with visiting(browser, service) as visit:
        page = visit.open("#/overview?color=used")

        expect(page.locator("[name=color]")).to_have_value("used")
        expect(page.locator(".keys")).to_contain_text("used: not known")
        expect(page.locator("[data-map]").first).to_be_visible()


def test_cards_pods_and_nodes_have_what_is_used_beside_what_is_granted(
    browser: Browser, service: Running
) -> None:
    with visiting(browser, service) as visit:
        page = visit.open("#/nodes")
        node = page.locator(f'[data-node="{NODE}"]')
        card = node.locator(f'[data-card="{CARD}"]')

        expect(card.locator(".memory")).to_contain_text("used 3 GiB")
        assert "4 of 22.5 GiB" in card.locator(".memory").inner_text()
        expect(card.locator(".who")).to_contain_text("used 2 GiB")
        expect(node.locator(".facts")).to_contain_text("used 3 GiB")
        label = card.get_by_role("img").get_attribute("aria-label") or ""
        assert label.startswith("Card 1: 4 of 22.5 GiB granted to 1 pod, used 3 GiB")
        width = card.locator(".bar b").evaluate("mark => mark.style.width")
        assert width == f"{100 * 3 / 22.5:.4f}%"
        assert "used, by the card's driver" in page.locator(".legend").inner_text()
        visit.picture("used")


def test_a_node_without_an_answer_is_not_known_and_no_error(
    browser: Browser, service: Running
) -> None:
    with visiting(browser, service) as visit:
        card = visit.open("#/nodes").locator('[data-node="metax-1"] .card').first

        expect(card.locator(".memory")).to_contain_text("used: not known")
        assert "used: not known" in (card.get_by_role("img").get_attribute("aria-label") or "")
        assert card.locator(".bar b").count() == 0
        expect(visit.page.get_by_role("alert")).to_be_empty()


def test_only_the_agents_of_the_nodes_in_view_are_asked(browser: Browser, tmp_path: Path) -> None:
    with (
        agents() as found,
        serving(tmp_path, "--store", "memory", code=found.program) as running,
        visiting(browser, running) as visit,
    ):
        with visit.page.expect_response("**/api/dashboard/used*") as used:
            visit.open("#/nodes?q=lab-1")
        assert used.value.status == 200
        assert set(found.asked) == {"lab-1"}


def test_the_pages_of_a_node_and_of_a_pod_have_both_amounts(
    browser: Browser, service: Running
) -> None:
    with visiting(browser, service) as visit:
        page = visit.open(f"#/node/{NODE}")
        row = page.get_by_role("table", name="Cards").get_by_role("row").filter(has_text=CARD)
        expect(row).to_contain_text("3 GiB")
        holder = page.get_by_role("table", name="Pods with cards").get_by_role("row")
        expect(holder.filter(has_text=POD)).to_contain_text("2 GiB")
        expect(page.locator("main")).to_contain_text(
            "HAMi-core's record, which the pod could write"
        )

        expect(visit.open(f"#/pod/{POD}").locator("dl")).to_contain_text("used 2 GiB")
        listed = visit.open("#/pods").get_by_role("row").filter(has_text=POD)
        expect(listed).to_contain_text("2 GiB")


def test_it_is_said_in_chinese_too(browser: Browser, service: Running) -> None:
    with visiting(browser, service, locale="zh-CN") as visit:
        page = visit.open("#/nodes")
        card = page.locator(f'[data-card="{CARD}"]').first

        expect(card.locator(".memory")).to_contain_text("实际使用 3 GiB")
        label = card.get_by_role("img").get_attribute("aria-label") or ""
        assert "实际使用 3 GiB" in label
        expect(page.locator('[data-node="metax-1"]')).to_contain_text("实际使用")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("route", ["#/nodes", f"#/node/{NODE}", f"#/pod/{POD}"])
def test_axe_finds_no_serious_barrier_and_a_phone_shows_it(
    browser: Browser, service: Running, scheme: str, route: str
) -> None:
    phone = {"width": 390, "height": 844}
    with visiting(browser, service, color_scheme=scheme, viewport=phone, is_mobile=True) as visit:
        page = visit.open(route)
        expect(page.locator("main")).to_contain_text("used ")

        found = Axe().run(page).response["violations"]
        visit.picture(f"used-{scheme}-{route.split('/')[1]}")

        assert [each["id"] for each in found if each["impact"] in ("serious", "critical")] == []
        scrolled = page.evaluate("document.documentElement.scrollWidth")
        assert scrolled <= phone["width"]


def test_an_agent_that_stops_to_answer_is_not_known_any_more(
    browser: Browser, service: Running, reports: Agents
) -> None:
    with visiting(browser, service) as visit:
        memory = visit.open("#/nodes").locator(f'[data-card="{STOPS_CARD}"]').locator(".memory")
        expect(memory).to_contain_text("used 1 GiB")

        del reports.texts[STOPS]

        expect(memory).to_contain_text("used: not known")
