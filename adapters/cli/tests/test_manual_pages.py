"""The manual pages: one of each command, complete, and without a warning of groff where it is."""

import shutil
import subprocess
from pathlib import Path

import pytest
import typer

from adapters.cli.main import app
from adapters.cli.manual_pages import pages
from adapters.cli.tests.command import command

COMMANDS = sorted(each.name or "" for each in app.registered_commands)
PAGES = pages(typer.main.get_command(app))


def test_every_command_has_a_page_that_the_programs_page_names() -> None:
    assert [*PAGES] == ["dragoman.1", *(f"dragoman-{name}.1" for name in COMMANDS)]
    assert all(f"dragoman\\-{name}(1)" in PAGES["dragoman.1"] for name in COMMANDS)


def test_a_page_has_the_texts_of_the_help() -> None:
    page = PAGES["dragoman-top.1"]

    assert "\\-o, \\-\\-output FORMAT\nwide, json, yaml, csv or name." in page
    assert ".SH EXAMPLE\ndragoman top nodes \\-\\-sort strandedMiB" in page
    assert ".SH EXIT STATUS\n0, or 2 for bad input or no answer." in page


@pytest.mark.parametrize("name", [*PAGES])
def test_groff_formats_a_page_without_a_warning(name: str) -> None:
    groff = shutil.which("groff")
    if groff is None:
        pytest.skip("groff is not installed")

    done = subprocess.run(  # noqa: S603
        [groff, "-man", "-Tascii", "-ww", "-z"],
        input=PAGES[name], capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert done.stderr == ""


def test_pages_are_printed_and_written(tmp_path: Path) -> None:
    assert command("man", "top").stdout == PAGES["dragoman-top.1"]
    assert command("man").stdout == PAGES["dragoman.1"]
    assert command("man", "--folder", tmp_path / "man1").exit_code == 0
    assert {each.name for each in (tmp_path / "man1").iterdir()} == {*PAGES}


def test_an_unknown_command_and_a_folder_that_cannot_be_written_are_bad_input(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").write_text("")

    unknown = command("man", "nothing")
    file = command("man", "--folder", tmp_path / "file")

    assert (unknown.exit_code, file.exit_code) == (2, 2)
    assert "no command 'nothing'; commands: audit, configure" in unknown.stderr
    assert "cannot be written" in file.stderr
