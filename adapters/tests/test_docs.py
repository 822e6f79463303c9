import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]


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
        for top in ("core", "adapters", "e2e")
        for path in (ROOT / top).rglob("test_*.py")
    ]
    defined = {name for source in sources for name in re.findall(r"def (test_\w+)", source)}

    assert len([name for name, page in named.items() if page == "deviations.md"]) > 60
    assert {name: page for name, page in named.items() if name not in defined} == {}


def anchors(page: Path) -> set[str]:
    """As the usual renderers make them of headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_page_and_heading_that_a_page_links_exists(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", page.read_text())
    targets = [(page.parent / path if path else page, anchor) for path, anchor in links]

    assert [str(path) for path, _ in targets if not path.exists()] == []
    assert [anchor for path, anchor in targets if anchor and anchor not in anchors(path)] == []


def test_every_metric_that_an_alert_or_the_operations_page_names_is_made() -> None:
    text = (ROOT / "configs/prometheus-alerts.yaml").read_text()
    text += (ROOT / "docs/operations.md").read_text()
    named = set(re.findall(r"\bdragoman_\w+[a-z]\b", text))
    sources = "".join(
        path.read_text() for path in (ROOT / "adapters").rglob("*.py") if "tests" not in path.parts
    )
    # the agent makes its names of a stem, and a counter's name ends in _total by itself
    stems = {name.removeprefix("dragoman_node_").removesuffix("_total") for name in named}

    assert len(named) > 20
    assert [stem for stem in stems if not re.search(rf'"{stem}(_total)?"', sources)] == []


def test_every_alert_is_explained() -> None:
    rules = yaml.safe_load((ROOT / "configs/prometheus-alerts.yaml").read_text())["spec"]["groups"]
    page = (ROOT / "docs/operations.md").read_text()
    alerts = [rule["alert"] for group in rules for rule in group["rules"]]

    assert [alert for alert in alerts if f"| `{alert}` |" not in page] == []
