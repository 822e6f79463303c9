"""Every console example of the command's pages prints what the page shows."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from adapters.cli.audit.finding import RULES
from adapters.cli.main import app

ROOT = Path(__file__).parents[3]
PAGES = sorted((ROOT / "docs" / "reference" / "cli").glob("*.md"))

OTHER_PAGES = tuple(
    ROOT / "docs" / page
    for page in ("reference/moves.md", "reference/schedulers/README.md", "guides/recipes.md")
)

NEED_A_CLUSTER = ("doctor",)
"""Commands that read no files; e2e runs them."""

EXAMPLES = [
    pytest.param(*example, id=example[0])
    for page in (*PAGES, *OTHER_PAGES)
    for block in re.findall(r"```console\n(.*?)```", page.read_text(), re.DOTALL)
    for example in re.findall(r"^\$ dragoman (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)
]


@pytest.mark.parametrize(("words", "shown"), EXAMPLES)
def test_an_example_prints_what_the_page_shows(
    words: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)

    result = CliRunner().invoke(app, shlex.split(words))

    assert result.exit_code in (0, 1), result.output
    assert result.stdout == shown


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.stem not in {"README", *NEED_A_CLUSTER}]
)
def test_every_command_has_an_example(page: Path) -> None:
    assert f"$ dragoman {page.stem} " in page.read_text()


def test_every_page_is_in_the_list_of_commands() -> None:
    text = (ROOT / "docs" / "reference" / "cli" / "README.md").read_text()

    assert [page.name for page in PAGES if f"]({page.name})" not in text] == ["README.md"]


def test_the_page_of_the_audit_has_every_rule() -> None:
    text = (ROOT / "docs" / "reference" / "cli" / "audit.md").read_text()

    rows = [f"| `{rule.id}` | {rule.level.value} | {rule.title} |" for rule in RULES.values()]
    assert [row for row in rows if row not in text] == []
