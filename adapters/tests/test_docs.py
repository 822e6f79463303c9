import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def pages() -> list[Path]:
    return sorted((ROOT / "docs").rglob("*.md"))


def test_every_test_that_a_page_names_exists() -> None:
    named = {
        name: page.name
        for page in pages()
        for name in re.findall(r"`(test_\w+)`", page.read_text())
    }
    sources = [
        path.read_text()
        for top in ("core", "adapters", "e2e")
        for path in (ROOT / top).rglob("test_*.py")
    ]
    defined = {name for source in sources for name in re.findall(r"def (test_\w+)", source)}

    assert len([name for name, page in named.items() if page == "deviations.md"]) > 60
    assert {name: page for name, page in named.items() if name not in defined} == {}


def test_every_file_that_a_page_links_exists() -> None:
    links = [
        (page.name, link)
        for page in pages()
        for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text())
        if "://" not in link and not (page.parent / link).exists()
    ]

    assert links == []


def test_every_page_that_the_readme_links_exists() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", (ROOT / "README.md").read_text())

    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
