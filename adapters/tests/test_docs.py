import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]

TOPS = {path.name for path in ROOT.iterdir() if path.is_dir()}
"""Folders by which a path in the text is known as one of this repository."""

TESTS = [
    path.relative_to(ROOT).as_posix()
    for top in ("dragoman", "core", "adapters", "e2e")
    for path in (ROOT / top).rglob("test_*.py")
]

LONGEST_CELL = 300
"""Characters of a cell, as written."""


CODE = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)
"""A block of code of a page."""


def is_a_test(name: str) -> bool:
    return any(path == name or path.endswith(f"/{name}") for path in TESTS)


PAGES = sorted(
    page
    for pattern in ("*.md", "docs/**/*.md", "charts/**/*.md", "configs/**/*.md")
    for page in ROOT.glob(pattern)
)


def test_every_test_that_a_page_names_exists() -> None:
    named = {
        name: page.name for page in PAGES for name in re.findall(r"`(test_\w+)`", page.read_text())
    }
    sources = [
        path.read_text()
        for top in ("dragoman", "core", "adapters", "e2e")
        for path in (ROOT / top).rglob("test_*.py")
    ]
    defined = {name for source in sources for name in re.findall(r"def (test_\w+)", source)}

    assert len([name for name, page in named.items() if page == "deviations.md"]) > 60
    assert {name: page for name, page in named.items() if name not in defined} == {}


def test_every_intended_difference_has_its_reason_and_its_test() -> None:
    page = (ROOT / "docs/reference/deviations.md").read_text()
    sections = re.split(r"^### ", CODE.sub("", page), flags=re.MULTILINE)
    stated = [section for section in sections if "* **Dragoman:** " in section]
    form = re.compile(
        r"[^\n]+\n\n\* \*\*(?!Dragoman)[^*]+:\*\* .+\n\* \*\*Dragoman:\*\* .+"
        r"\n\* \*\*Why:\*\* .+\n\* \*\*Test:\*\* `test_",
        re.DOTALL,
    )

    assert len(stated) > 100
    assert [section for section in stated if not form.match(section)] == []


def anchors(page: Path) -> set[str]:
    """Anchors of a page's headings, as the usual renderers make them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_that_a_page_names_exists(page: Path) -> None:
    text = re.sub(r"https?://\S+", "", page.read_text())
    named = re.findall(
        r"(?<![\w/.-])((?:[\w.-]+/)+[\w.-]+\.(?:py|md|yaml|toml|go|c|proto|svg))\b", text
    )
    ours = [name for name in named if name.split("/")[0] in TOPS]
    tests = re.findall(r"`((?:[\w-]+/)*test_\w+\.py)`", text)

    assert [name for name in ours if not (ROOT / name).exists()] == []
    assert [name for name in tests if not is_a_test(name)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_cell_of_a_table_is_too_long_to_read(page: Path) -> None:
    rows = [line for line in page.read_text().splitlines() if line.startswith("|")]
    cells = [cell.strip() for row in rows for cell in re.split(r"(?<!\\)\|", row)]

    assert [
        cell for cell in cells if len(cell) > LONGEST_CELL and not cell.startswith("`test_")
    ] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_page_and_heading_that_a_page_links_exists(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", page.read_text())
    targets = [(page.parent / path if path else page, anchor) for path, anchor in links]

    assert [str(path) for path, _ in targets if not path.exists()] == []
    assert [anchor for path, anchor in targets if anchor and anchor not in anchors(path)] == []


def test_every_metric_that_an_alert_or_an_operators_page_names_is_made() -> None:
    text = ""
    for file in (
        "configs/prometheus-alerts.yaml",
        "configs/examples/recipes/cost.yaml",
        "docs/guides/operations.md",
        "docs/reference/metrics.md",
    ):
        text += (ROOT / file).read_text()
    named = set(re.findall(r"\bdragoman_\w+[a-z]\b", text))
    sources = "".join(
        path.read_text() for path in (ROOT / "adapters").rglob("*.py") if "tests" not in path.parts
    )
    # The agent composes its names from stems; prometheus_client adds _total and _info.
    stems = {
        name.removeprefix("dragoman_node_").removesuffix("_total").removesuffix("_info")
        for name in named
    }

    assert len(named) > 20
    assert [stem for stem in stems if not re.search(rf'"{stem}(_total)?"', sources)] == []


def test_the_badge_names_the_version_of_kubernetes_that_the_tests_run() -> None:
    versions = tomllib.loads((ROOT / "e2e/testbed/versions.toml").read_text())
    major, minor, _ = versions["go"]["kubernetes"]["version"].removeprefix("v").split(".")
    claim = f"kubernetes: tested with {major}.{minor}"

    assert f"<title>{claim}</title>" in (ROOT / "docs/img/badge-kubernetes.svg").read_text()
    assert f"[![{claim}]" in (ROOT / "README.md").read_text()


def test_every_alert_is_explained() -> None:
    rules = yaml.safe_load((ROOT / "configs/prometheus-alerts.yaml").read_text())["spec"]["groups"]
    page = (ROOT / "docs/guides/operations.md").read_text()
    alerts = [rule["alert"] for group in rules for rule in group["rules"]]

    assert [alert for alert in alerts if f"| `{alert}` |" not in page] == []


FOREIGN = {
    "Insufficient koordinator.sh/gpu.shared",  # koord-scheduler
    "pod group is not ready",  # vc-scheduler
    "extender",  # the schedulers' logs
}
"""Texts on the page of symptoms that other programs write."""


def test_every_text_of_a_symptom_is_written_by_our_code() -> None:
    page = (ROOT / "docs/guides/troubleshooting.md").read_text()
    quoted = {
        text.strip(". ")
        for quote in re.findall(r'"([^"|]+)"', page)
        for text in re.split(r"\.\.\.|\b\d+\b", quote)
        if quote not in FOREIGN and not quote.startswith("SERVICE/")
    }
    sources = "".join(
        path.read_text()
        for top in ("core", "adapters")
        for path in (ROOT / top).rglob("*.py")
        if "tests" not in path.parts
    )

    assert len(quoted) > 10
    assert [text for text in quoted if text not in sources] == []


def test_every_event_and_log_name_of_the_operators_pages_is_written_by_our_code() -> None:
    pages = [
        ROOT / "docs" / name
        for name in ("guides/operations.md", "guides/troubleshooting.md", "reference/node-agent.md")
    ]
    text = "".join(page.read_text() for page in pages)
    events = set(re.findall(r"^\| (?:pod|node) \| `([A-Z]\w+)`", text, re.MULTILINE))
    logged = set(re.findall(r"(?:log|logs|logged)[^`|]{0,12}`(\w+\.\w+)`", text))
    sources = "".join(
        path.read_text() for path in (ROOT / "adapters").rglob("*.py") if "tests" not in path.parts
    )

    assert len(events) > 7
    assert len(logged) > 4
    assert [name for name in events - {"FailedScheduling"} if f'"{name}"' not in sources] == []
    assert [name for name in logged if f'"{name}"' not in sources] == []


def test_the_index_has_every_page_of_the_documentation() -> None:
    index = ROOT / "docs/README.md"
    linked = {
        (index.parent / path).resolve()
        for path in re.findall(r"\]\(([^)#:]+)\)", index.read_text())
    }
    pages = {*(ROOT / "docs").rglob("*.md")} - {index}

    assert len(pages) > 40
    assert sorted(str(page.relative_to(ROOT)) for page in pages - linked) == []


WIDEST_LINE = 120
"""Characters of a line of prose in the source of a page."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_line_of_text_is_too_wide_for_a_diff(page: Path) -> None:
    lines = CODE.sub("", page.read_text()).splitlines()
    prose = [line for line in lines if not line.lstrip().startswith("|")]

    assert [line for line in prose if len(line) > WIDEST_LINE] == []


LONGEST_CHANGE = 140
"""Characters of a change that a reader sees, without the link to its page."""


def test_the_changelog_has_one_line_for_each_change_by_kind() -> None:
    releases = re.split(r"^## ", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)[1:]
    kinds = [kind for each in releases for kind in re.split(r"^### ", each, flags=re.MULTILINE)[1:]]
    changes = [
        " ".join(change.split())
        for kind in kinds
        for change in re.findall(r"^- (.+(?:\n  .+)*)", kind, re.MULTILINE)
    ]
    seen = [re.sub(r" \(\[[^]]*\]\([^)]*\)\)|\]\([^)]*\)", "", change) for change in changes]

    assert len(seen) > 150
    assert {kind.partition("\n")[0] for kind in kinds} <= {
        "Added",
        "Changed",
        "Deprecated",
        "Removed",
        "Fixed",
        "Security",
    }
    assert [change for change in seen if len(change) > LONGEST_CHANGE] == []


TRANSLATED = [page for page in PAGES if page.name.endswith(".zh-CN.md")]


def parts(page: Path) -> tuple[list[str], list[int]]:
    """The blocks of code of a page, and the levels of its headings."""
    text = page.read_text()
    return [code[0] for code in CODE.finditer(text)], [
        len(level) for level in re.findall(r"^#+", CODE.sub("", text), re.M)
    ]


@pytest.mark.parametrize("page", TRANSLATED, ids=lambda page: page.name)
def test_a_page_in_chinese_has_the_commands_and_headings_of_the_english_one(page: Path) -> None:
    english = page.with_name(page.name.replace(".zh-CN", ""))

    assert parts(page) == parts(english)
    assert f"]({page.name})" in english.read_text()
    assert f"]({english.name})" in page.read_text()
