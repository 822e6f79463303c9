"""The check of words finds what the glossary replaces, in the files that people read."""

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / ".ci" / "words.py"
ARCHAIC = "t" + "old"


def checked(folder: Path, *arguments: str) -> tuple[int, str]:
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)  # noqa: S607
    done = subprocess.run(  # noqa: S603 - our own script
        [sys.executable, str(SCRIPT), *arguments], cwd=folder, capture_output=True, text=True
    )
    return done.returncode, done.stdout


def test_a_word_that_the_glossary_replaces_fails_with_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text(f"A page.\nThe pod is {ARCHAIC}.\n")

    assert checked(tmp_path) == (1, f"page.md:2: {ARCHAIC}\n")


def test_a_part_of_an_identifier_counts_and_a_part_of_a_word_does_not(tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text(f"was_{ARCHAIC} = 1\n{ARCHAIC}er = 2\n")

    assert checked(tmp_path) == (1, f"code.py:1: {ARCHAIC}\n")


def test_plain_text_and_generated_files_pass(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("The service rejects the pod.\n")
    (tmp_path / "golden").mkdir()
    (tmp_path / "golden" / "captured.txt").write_text(f"{ARCHAIC}\n")
    (tmp_path / "picture.svg").write_text(f"{ARCHAIC}\n")

    assert checked(tmp_path, "page.md", "picture.svg") == (0, "")


def test_the_count_has_one_line_per_file_and_a_path_restricts_it(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "page.md").write_text(f"{ARCHAIC} {ARCHAIC}\n")
    (tmp_path / "other.md").write_text(f"{ARCHAIC}\n")

    assert checked(tmp_path, "--count", "docs") == (1, "2 docs/page.md\n")
    assert checked(tmp_path, "--count") == (1, "2 docs/page.md\n1 other.md\n")
