import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_test_that_the_deviations_name_exists() -> None:
    named = set(re.findall(r"`(test_\w+)`", (ROOT / "docs/deviations.md").read_text()))
    sources = [
        path.read_text()
        for top in ("core", "adapters", "e2e")
        for path in (ROOT / top).rglob("test_*.py")
    ]
    defined = {name for source in sources for name in re.findall(r"def (test_\w+)", source)}

    assert len(named) > 60
    assert named - defined == set()


def test_every_page_that_the_readme_links_exists() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", (ROOT / "README.md").read_text())

    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
