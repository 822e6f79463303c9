"""Build the pages as a site, ``dist/site``. A link or heading that does not exist ends it with 1.

The repository's Markdown and all that it links are copied in their places, so that relative links
are the same in the site, on GitHub and in an editor. ``docs/README.md`` gives tabs and order.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
STAGE = ROOT / "dist/pages"
LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)[^)]*\)")


def copy(path: Path) -> None:
    """Copy a file and what it links, once; or a folder's files, with a page that lists them."""
    target = STAGE / path.relative_to(ROOT)
    if path.is_dir():
        files = [each for each in sorted(path.iterdir()) if each.is_file()]
        rows = "".join(f"* [{each.name}]({each.name})\n" for each in files)
        target.mkdir(parents=True, exist_ok=True)
        (target / "README.md").write_text(f"# {path.relative_to(ROOT)}\n\n{rows}")
        for each in files:
            copy(each)
    elif not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
        text = path.read_bytes()
        if path.suffix == ".md":
            text = LINK.sub(lambda link: staged(path, link), text.decode()).encode()
        target.write_bytes(text)


def staged(page: Path, link: re.Match[str]) -> str:
    """Copy what a link of a page leads to, and return the link as the site has it."""
    linked = (page.parent / link[1]).resolve()
    if linked.exists():
        copy(linked)
    if linked.is_dir():
        return link[0].replace(link[1], f"{link[1].rstrip('/')}/README.md")
    return link[0]


def nav() -> list[dict[str, list[str]]]:
    """Return a tab for each part of ``docs/README.md`` that lists pages."""
    docs = ROOT / "docs"
    tabs = [{"Dragoman": ["README.md", "docs/README.md"]}]
    for part in (docs / "README.md").read_text().split("\n## ")[1:]:
        title, text = part.split("\n", 1)
        pages = [(docs / link).resolve() for link in LINK.findall(text) if link.endswith(".md")]
        if pages and not text.lstrip().startswith(">"):
            tabs.append({title: [str(page.relative_to(ROOT)) for page in dict.fromkeys(pages)]})
    return tabs


def main() -> int:
    """Stage the pages, and run mkdocs on them."""
    shutil.rmtree(STAGE, ignore_errors=True)
    copy(ROOT / "README.md")
    for page in sorted((ROOT / "docs").rglob("*.md")):
        copy(page)
    base = os.path.relpath(Path(__file__).with_name("mkdocs.yml"), STAGE.parent)
    settings = {"INHERIT": base, "docs_dir": "pages", "site_dir": "site", "nav": nav()}
    config = ROOT / "dist/mkdocs.yml"
    config.write_text(yaml.safe_dump(settings, allow_unicode=True, sort_keys=False))
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(config)]
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, env=quiet, check=False).returncode  # noqa: S603


if __name__ == "__main__":
    sys.exit(main())
