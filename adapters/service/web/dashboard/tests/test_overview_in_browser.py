"""The first screen, the questions of people on call, and what a designer looks at, in a browser."""

import itertools
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

import adapters.cli.tests
from adapters.service.tests.process import Running, serving
from adapters.service.web.dashboard.tests import fleet
from adapters.service.web.dashboard.tests.browser import chromium, executable, visiting

pytestmark = pytest.mark.timeout(300)

PLUGINS = Path(adapters.cli.tests.__path__[0]) / "dumps" / "nvidia_operator.yaml"
NUMBERS = (*range(40), *(int(name[-5:]) for name in (fleet.OVER, fleet.UNREAD, fleet.SICK)))
WIDTHS = (390, 1280, 1400, 1920)
SHIFT = """
    window.shift = 0;
    new PerformanceObserver(list => {
        for (const each of list.getEntries()) if (!each.hadRecentInput) window.shift += each.value;
    }).observe({type: "layout-shift", buffered: true});
"""
CONTRAST = """() => {
    const parse = text => (text.match(/[\\d.]+/g) ?? []).map(Number);
    const paint = (front, back) => front.slice(0, 3).map((each, at) =>
        each * (front[3] ?? 1) + back[at] * (1 - (front[3] ?? 1)));
    const luminance = color => color.map(each => each / 255)
        .map(each => each <= .04045 ? each / 12.92 : ((each + .055) / 1.055) ** 2.4)
        .reduce((all, each, at) => all + each * [.2126, .7152, .0722][at], 0);
    const back = element => {
        const chain = [];
        for (let at = element; at; at = at.parentElement) {
            chain.unshift(parse(getComputedStyle(at).backgroundColor));
        }
        return chain.reduce((below, each) => paint(each, below), [255, 255, 255]);
    };
    const found = [];
    for (const element of document.querySelectorAll("body *")) {
        const own = [...element.childNodes].some(each => each.nodeType === 3 && each.data.trim());
        if (!own || !element.checkVisibility() || element.closest(".hidden, .skip")) continue;
        const behind = back(element);
        const [one, other] = [paint(parse(getComputedStyle(element).color), behind), behind]
            .map(luminance).sort((a, b) => b - a);
        const ratio = (one + .05) / (other + .05);
        if (ratio < 4.5) found.push([element.textContent.slice(0, 40), ratio]);
    }
    return found;
}"""
REVIEWED = ("#/overview", "#/nodes", "#/pods", "#/pending", "#/pod/default/huge", "#/node/dgx-1")
LAYOUT = """() => {
    const shown = element => element.checkVisibility({contentVisibilityAuto: true})
        && !element.closest(".hidden, .skip, #cell")
        && getComputedStyle(element.closest("thead") ?? element).clipPath === "none";
    const all = (selector, within = document) =>
        [...within.querySelectorAll(selector)].filter(shown);
    const twelfth = x => Math.round(12 * x / innerWidth);
    const boxes = all("header, .totals > a, .panel, .filters:not(.keys *) label").map(each => {
        const {left, right} = each.getBoundingClientRect();
        return [twelfth(left), twelfth(right), each.dataset.key ?? (each.id || "total")];
    });
    const texts = all("header *, main *").filter(each => !each.closest("option, select")).flatMap(
        each => [...each.childNodes].filter(child => child.nodeType === 3 && child.data.trim()));
    const clipped = texts.map(text => text.parentElement)
        .filter(each => getComputedStyle(each).overflowX === "hidden"
            && each.scrollWidth > each.clientWidth + 1).map(each => each.textContent);
    const lines = texts.flatMap(text => {
        const range = document.createRange();
        range.selectNodeContents(text);
        return [...range.getClientRects()].map(line => [line, text.data]);
    });
    const overlapping = lines.flatMap(([one, text], at) => lines.slice(at + 1)
        .filter(([two]) => Math.min(one.right, two.right) - Math.max(one.left, two.left) > 2
            && Math.min(one.bottom, two.bottom) - Math.max(one.top, two.top) > 6)
        .map(([, other]) => [text, other]));
    const uneven = [[".rows", ".bar", "width"], [".filters", "label", "height"]].flatMap(
        ([list, each, side]) => all(list).filter(within => new Set(all(each, within)
            .map(element => Math.round(element.getBoundingClientRect()[side]))).size > 1)
            .map(within => within.innerText));
    const filled = all(".bar > i").filter(each => each.style.width === "0%" && each.offsetWidth)
        .map(each => each.closest("li").innerText);
    return [boxes, {clipped, overlapping, uneven, filled}];
}"""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    executable()
    folder = tmp_path_factory.mktemp("overview")
    fleet.write(folder / "fleet.db", NUMBERS)
    store = f"sqlite:{folder / 'fleet.db'}"
    with serving(folder, "--store", store, inventory=PLUGINS) as running:
        for name, memory in (("huge", 90_000), ("large", 70_000)):
            limits = {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": memory}
            limits |= {"volcano.sh/vgpu-cores": 100} if name == "huge" else {}
            created = "2026-11-28T10:00:00Z"
            running.get(
                "/local/pods",
                {
                    "metadata": {"name": name, "uid": name, "creationTimestamp": created},
                    "spec": {"containers": [{"name": "main", "resources": {"limits": limits}}]},
                },
            )
        while "not evaluated yet" in str(running.get("/api/dashboard/overview")["waiting"]):
            time.sleep(0.2)
        yield running


@pytest.fixture(scope="module")
def browser(service: Running) -> Iterator[Browser]:  # noqa: ARG001 (begins before Playwright's loop)
    with chromium() as browser:
        yield browser


def the_map(page: Page) -> None:
    """Wait until the map of cards is drawn."""
    expect(page.locator("[data-map]").first).to_be_visible()


def test_the_first_screen_has_all_totals_and_each_leads_to_its_list(
    browser: Browser, service: Running
) -> None:
    with visiting(browser, service) as visit:
        page = visit.open()
        totals = page.locator(".totals")

        for text in ("Granted memory", "Whole cards free", "Largest free share", "of 344 cards"):
            expect(totals).to_contain_text(text)
        expect(totals.locator(".alarm strong")).to_have_text("3")
        expect(totals).to_contain_text("oldest ")
        expect(totals).to_contain_text(
            re.compile(r"Nodes with problems3of \d+ nodes · unhealthy cards: 1")
        )
        free = int(totals.locator("a").nth(1).locator("strong").inner_text())
        assert 0 < free < 8 * len(NUMBERS)
        totals.get_by_role("link", name=re.compile("Nodes with problems")).click()
        expect(page.locator("[data-node]")).to_have_count(3)
        expect(page.locator("[name=health]")).to_have_value("problems")


def test_amounts_have_a_decimal_below_100_and_are_tib_from_ten_on(
    browser: Browser, service: Running
) -> None:
    program = """async values => {
        const {src} = document.querySelector("script[type=module]");
        const {gib, ofGib} = await import(src.replace("main.js", "text.js"));
        return [...values.map(each => gib(1024 * each)), ofGib(154112, 23040).granted];
    }"""
    with visiting(browser, service) as visit:
        found = visit.open().evaluate(program, [40, 22.53, 2782.4, 10239, 10240, 28.7 * 1024])

    assert found == ["40 GiB", "22.5 GiB", "2,782 GiB", "10,239 GiB", "10 TiB", "28.7 TiB", "151"]


def test_the_keyboard_chooses_the_color_of_the_map_which_the_address_keeps(
    browser: Browser, service: Running
) -> None:
    contrasts = """() => {
        const pixel = document.createElement("canvas").getContext("2d");
        const light = color => {
            pixel.fillStyle = color;
            pixel.fillRect(0, 0, 1, 1);
            return [...pixel.getImageData(0, 0, 1, 1).data].slice(0, 3).map(each => each / 255)
                .map(each => each <= .04045 ? each / 12.92 : ((each + .055) / 1.055) ** 2.4)
                .reduce((all, each, at) => all + each * [.2126, .7152, .0722][at], .05);
        };
        const [free, ...names] = [...document.querySelectorAll(".keys li > i:not([class])")]
            .map(each => light(getComputedStyle(each).backgroundColor));
        return names.map(each => Math.max(free / each, each / free));
    }"""
    with visiting(browser, service) as visit:
        page = visit.open()
        the_map(page)
        page.get_by_label("Color by").focus()
        for _ in range(2):
            page.keyboard.press("ArrowDown")

        keys = page.locator(".keys")
        for name in (*fleet.NAMESPACES, "others"):
            expect(keys).to_contain_text(name)
        assert page.url.endswith("#/overview?color=namespace")
        expect(page.get_by_label("Color by")).to_be_focused()
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            found = page.evaluate(contrasts)
            assert len(found) == len(fleet.NAMESPACES) + 1
            assert min(found) >= 3
        page.get_by_label("Language").select_option("zh")
        expect(page.get_by_label("着色依据")).to_have_value("namespace")
        page.reload()
        visit.drawn()
        expect(page.get_by_label("着色依据")).to_have_value("namespace")


def test_a_card_says_what_is_on_it_under_the_pointer_and_the_keys_walk(
    browser: Browser, service: Running
) -> None:
    with visiting(browser, service) as visit:
        page = visit.open()
        the_map(page)
        cell, card = page.locator("#cell"), page.locator("[data-map]").first

        card.hover(position={"x": 5, "y": 5})
        expect(cell.get_by_role("link").first).to_have_text(re.compile(r"node-\d+"))
        expect(cell).to_contain_text("#0")

        card.focus()
        page.keyboard.press("ArrowRight")
        expect(cell).to_contain_text("#1")
        page.keyboard.press("End")
        last = cell.get_by_role("link").first
        expect(cell).to_contain_text("#1")
        name = last.inner_text()
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name=name, level=2)).to_be_visible()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("route", ["#/overview", "#/nodes", "#/pods", "#/pending", "#/decisions"])
def test_nothing_shifts_or_scrolls_sideways_and_the_filters_are_one_row(
    browser: Browser, service: Running, route: str, width: int
) -> None:
    size = {"width": width, "height": 900}
    with visiting(browser, service, viewport=size, is_mobile=width == 390) as visit:
        visit.page.add_init_script(SHIFT)
        page = visit.open(route)
        visit.again()
        page.wait_for_timeout(200)

        assert page.evaluate("document.documentElement.scrollWidth") <= width
        labels = page.locator(".filters label, .filters button").all()
        boxes = [box for each in labels if (box := each.bounding_box()) is not None]
        tops = {round(box["y"] + box["height"] / 2) for each in page.locator(".tools > *, h1").all()
                if (box := each.bounding_box()) is not None}  # fmt: skip
        assert max(tops) - min(tops) <= 2
        if width >= 1280:
            bottoms = {round(box["y"] + box["height"]) for box in boxes}
            assert len(bottoms) == 1
        assert page.evaluate("window.shift") < 0.02


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("locale", ["en-US", "zh-CN"])
@pytest.mark.parametrize(
    "route",
    ["#/overview", "#/nodes", "#/node/dgx-1", "#/pods", "#/pending", "#/pod/default/huge"],
)
def test_all_text_has_contrast_and_axe_finds_no_serious_barrier(
    browser: Browser, service: Running, route: str, locale: str, scheme: str
) -> None:
    with visiting(browser, service, color_scheme=scheme, locale=locale) as visit:
        page = visit.open(route)
        if "pod/" in route:
            page.wait_for_selector("[data-key=explained]")

        assert page.evaluate(CONTRAST) == []
        found = Axe().run(page).response["violations"]
        serious = [each for each in found if each["impact"] in ("serious", "critical")]
        assert [
            (each["id"], [node["html"] for node in each["nodes"]][:3]) for each in serious
        ] == []
        visit.picture(f"{locale}-{scheme}-{route.split('/')[1]}")


def test_which_card_is_full_takes_one_click(browser: Browser, service: Running) -> None:
    with visiting(browser, service) as visit:
        page = visit.open()
        page.get_by_role("link", name="no free share").click()

        expect(page.locator("[name=health]")).to_have_value("full")
        expect(page.locator("[data-node]").first).to_be_visible()
        expect(page.locator('[data-node="dgx-1"]')).to_contain_text("8/8")
        expect(page.locator('[data-node="l40s-1"]')).to_have_count(0)
        word = re.compile("^(full|exclusive|[0-9.]+ of [0-9.]+ GiB)$")
        for node in page.locator('[data-node^="node-"]').all():
            figures = node.locator(".memory > span:first-child").all_inner_texts()
            assert any(word.match(text) for text in figures)


def test_why_a_pod_waits_and_what_would_make_it_fit_takes_two_clicks(
    browser: Browser, service: Running
) -> None:
    with visiting(browser, service) as visit:
        page = visit.open()
        page.get_by_role("navigation").get_by_role("link", name="Pending").click()
        row = page.get_by_role("row").filter(has_text="default/huge")
        expect(row).to_contain_text("GiB short", timeout=60_000)
        expect(row.locator("time").first).to_be_visible()
        row.get_by_role("link", name="default/huge").click()

        expect(page.locator("[data-key=remedies]")).to_contain_text(
            "request less for main: memory, at most 81920 MiB"
        )
        expect(page.locator("[data-key=remedies]")).to_contain_text(
            "dragoman defrag --for pod/huge -n default"
        )
        expect(page.locator("[data-key=asks]")).to_contain_text("87.9 GiB")


def test_who_uses_a_card_takes_one_click_for_shares_and_for_devices(
    browser: Browser, service: Running
) -> None:
    with visiting(browser, service) as visit:
        page = visit.open()
        page.get_by_role("navigation").get_by_role("link", name="Nodes").click()
        page.get_by_role("searchbox").fill("dgx-1")
        dgx = page.locator('[data-node="dgx-1"]')

        expect(dgx).to_contain_text("8/8")
        expect(dgx).to_contain_text("nvidia.com/gpu")
        expect(dgx.locator(".who a").first).to_be_visible()
        assert "0 of 0" not in dgx.inner_text()
        expect(page.locator("[data-node]")).to_have_count(1)


def test_what_would_free_a_node_is_on_its_page(browser: Browser, service: Running) -> None:
    with visiting(browser, service) as visit:
        page = visit.open(f"#/nodes?q={fleet.OVER}")
        page.get_by_role("link", name=fleet.OVER, exact=True).click()

        expect(page.locator("[data-key=emptied]")).to_contain_text("dragoman defrag --free-nodes 1")


def test_whether_a_workload_will_fit_is_a_command_on_the_first_screen(
    browser: Browser, service: Running
) -> None:
    with visiting(browser, service) as visit:
        expect(visit.open().locator("[data-key=free]")).to_contain_text(
            "dragoman whatif --pods FILE"
        )


def test_a_request_for_mig_reads_by_its_name(browser: Browser, service: Running) -> None:
    with visiting(browser, service) as visit:
        row = visit.open("#/pending").get_by_role("row").filter(has_text="mig-c")

        expect(row).to_contain_text("1 nvidia.com/mig-3g.20gb")
        expect(row).not_to_contain_text("whole")


def test_a_part_of_the_memory_with_all_compute_is_no_whole_card(
    browser: Browser, service: Running
) -> None:
    with visiting(browser, service) as visit:
        row = visit.open("#/pending").get_by_role("row").filter(has_text="huge")

        expect(row).to_contain_text("87.9 GiB, 100% compute")


def test_light_and_dark_are_a_switch_that_stays(browser: Browser, service: Running) -> None:
    with visiting(browser, service) as visit:
        page = visit.open()
        color = "getComputedStyle(document.body).backgroundColor"
        before = page.evaluate(color)
        page.get_by_role("button", name="Light or dark").click()

        assert page.evaluate(color) != before
        page.reload()
        visit.drawn()
        assert page.evaluate(color) != before


@pytest.mark.parametrize("locale", ["en-US", "zh-CN"])
@pytest.mark.parametrize("width", [390, 1280, 1920])
def test_every_view_has_the_layout_that_was_reviewed(
    browser: Browser, service: Running, width: int, locale: str, rewrite_golden: bool
) -> None:
    """The golden file has boxes in twelfths of the width, for fonts differ by machine.

    A box may differ by one. The pictures that a person reviews are in ``.screenshots``.
    """
    phone = width == 390
    size = {"width": width, "height": 2400 if phone else 1000}
    golden = Path(__file__).parent / "golden" / f"layout-{width}.txt"
    drawn: list[str] = []
    with visiting(browser, service, viewport=size, is_mobile=phone, locale=locale) as visit:
        for route in REVIEWED:
            page = visit.open(route)
            if "pod/" in route:
                page.wait_for_selector("[data-key=explained]")
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)
                visit.picture(f"{width}-{locale}-{scheme}-{route.split('/')[1]}")
                boxes, defects = page.evaluate(LAYOUT)
                assert (scheme, {name: each for name, each in defects.items() if each}) == (
                    scheme,
                    {},
                )
            drawn += [f"{route} {name} {left} {right}" for left, right, name in boxes]
    if rewrite_golden:
        if locale == "en-US":
            golden.write_text("\n".join(drawn) + "\n")
        return
    reviewed = golden.read_text().splitlines()
    moved = [
        (now, before)
        for now, before in itertools.zip_longest(map(str.split, drawn), map(str.split, reviewed))
        if not now
        or not before
        or now[:2] != before[:2]
        or any(abs(int(a) - int(b)) > 1 for a, b in zip(now[2:], before[2:], strict=True))
    ]
    assert moved == []
