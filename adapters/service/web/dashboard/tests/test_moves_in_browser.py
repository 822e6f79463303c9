"""Plans of moves in a real browser, from an API server of the test."""

from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, expect

from adapters.service.tests.builders import Json
from adapters.service.tests.process import Running, serving
from adapters.service.web.dashboard.tests.browser import chromium, executable, visiting
from adapters.service.web.dashboard.tests.plans import (
    ApiServer,
    a_move,
    a_plan,
    api_server,
    place,
)

pytestmark = pytest.mark.timeout(300)

FROM = place("nvidia-1", "GPU-a1000a10-0000-4000-8000-000000000001")
TO = place("lab-1", "GPU-1ab01ab0-0000-4000-8000-000000000000")
STEPS = [{"step": 1, "replacement": "b-1", "readyAt": "2026-11-26T10:02:00Z"}]
PLANS = [
    a_plan("works", [a_move("a-1", FROM, TO), a_move("a-2", FROM, TO)], at=2, steps=STEPS)
    | {"status": {"phase": "Evict", "step": 2, "reason": "<b>waits</b>", "steps": STEPS}},
    a_plan("over", [a_move("a-3", FROM, TO)], at=1, phase="Stopped", reason="no mover runs"),
    {**a_plan("broken", []), "spec": {"moves": "<img src=x onerror=alert(1)>"}},
]


@pytest.fixture(scope="module")
def server() -> Iterator[ApiServer]:
    with api_server() as found:
        yield found


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, server: ApiServer) -> Iterator[Running]:
    executable()
    folder = tmp_path_factory.mktemp("moves")
    with serving(folder, "--store", "memory", code=server.program) as running:
        yield running


@pytest.fixture(scope="module")
def browser(service: Running) -> Iterator[Browser]:  # noqa: ARG001 (begins before Playwright's loop)
    with chromium() as browser:
        yield browser


def test_plans_are_shown_with_their_moves_and_a_picture_until_the_api_server_refuses(
    browser: Browser, service: Running, server: ApiServer
) -> None:
    server.plans = PLANS
    with visiting(browser, service) as visit:
        page = visit.open()
        page.get_by_role("link", name="Moves", exact=True).click()
        works, over, broken = (page.locator(f'[data-plan="{name}"]') for name in
                               ("works", "over", "broken"))  # fmt: skip

        expect(works).to_contain_text("step 2 of 2")
        expect(works).to_contain_text("<b>waits</b>")
        rows = works.get_by_role("row")
        expect(rows.nth(1)).to_contain_text("ready: web/b-1")
        expect(rows.nth(2)).to_contain_text("not yet")
        image = works.get_by_role("img")
        expect(image).to_have_js_property("complete", value=True)
        assert image.evaluate("image => image.naturalWidth") > 300
        expect(over).to_contain_text("no mover runs")
        expect(over.get_by_role("img")).to_be_hidden()
        expect(broken).to_contain_text("spec cannot be read")
        visit.picture("moves")

        server.plans = None

        expect(page.get_by_role("alert").last).to_contain_text("The plans are not known")
        expect(page.locator("body")).to_have_attribute("data-state", "live")


def test_the_page_of_a_waiting_pod_has_the_plans_that_make_room_for_it(
    browser: Browser, service: Running, server: ApiServer
) -> None:
    limits = {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 900_000}
    container = {"name": "main", "resources": {"limits": limits}}
    metadata = {"name": "next", "namespace": "web", "uid": "next"}
    service.get("/local/pods", {"metadata": metadata, "spec": {"containers": [container]}})
    target: Json = {"kind": "Pod", "namespace": "web", "name": "next", "uid": "next"}
    target |= {"afterStep": 1, "place": FROM}
    room = a_plan("room", [a_move("a-1", FROM, TO)], [target], at=3)
    server.plans = [*PLANS, room]
    with visiting(browser, service) as visit:
        page = visit.open("#/pod/web/next")

        expect(page.locator("[data-plan]")).to_have_count(1, timeout=30_000)
        expect(page.locator('[data-plan="room"]')).to_contain_text("web/a-1")


def test_axe_finds_no_serious_barrier_and_a_phone_shows_it_in_chinese_too(
    browser: Browser, service: Running, server: ApiServer
) -> None:
    server.plans = PLANS
    phone = {"width": 390, "height": 844}
    with visiting(browser, service, viewport=phone, is_mobile=True, locale="zh-CN") as visit:
        page = visit.open("#/moves")
        expect(page.locator('[data-plan="works"]')).to_contain_text("第 2 步")

        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            found = Axe().run(page).response["violations"]
            visit.picture(f"moves-{scheme}")
            assert [each["id"] for each in found if each["impact"] in ("serious", "critical")] == []
        assert page.evaluate("document.documentElement.scrollWidth") <= phone["width"]
