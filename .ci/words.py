"""Fail where a text uses a word that docs/glossary.md replaces: ``words.py [--count] [PATH...]``.

Without a path, all tracked text is read, but for generated files and what foreign programs wrote.
"""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

INSTEAD = {
    r"tell|tells|told|telling": "report, record, return, write, log",
    r"whoever|whom|whomever|nobody|somebody|anybody|asker|askers": "name the component",
    r"he|him|his": "name the component, or: it, its",
    r"anew": "again, new",
    r"sell|sells|sold|selling": "allocate, advertise",
    r"cannot be meant": "is invalid",
    r"puts? off|putting off": "evict, defer",
    r"hopeless": "unresolvable",
    r"vocabulary|vocabularies": "dialect",
    r"likeness|roster": "class, version, index",
    r"twin|twins": "oracle, duplicate",
    r"thereof|whereof|wherefrom|hitherto": "plain words",
}
"""Regular expressions of whole words, and what to write."""

WORDS = re.compile(rf"(?<![A-Za-z])({'|'.join(INSTEAD)})(?![A-Za-z])", re.IGNORECASE)
SKIPPED = re.compile(
    r"^LICENSE$|_pb2|^e2e/captures/|/golden/|^\.ci/words\.py$|^docs/glossary\.md$|\.lock$|\.svg$"
    r"|^requirements/.*\.txt$"
)


def tracked() -> list[str]:
    """All files that git knows or would add."""
    words = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()  # noqa: S603


def uses(path: str) -> list[tuple[int, str]]:
    """Line numbers and words; none of a file that is no text."""
    try:
        lines = Path(path).read_text().splitlines()
    except (UnicodeDecodeError, IsADirectoryError, FileNotFoundError):
        return []
    return [(n, found) for n, line in enumerate(lines, 1) for found in WORDS.findall(line)]


def main(words: list[str]) -> int:
    """Print the uses; 1 where there is one."""
    paths = [word for word in words if not word.startswith("--")]
    chosen = [
        name
        for name in tracked()
        if not SKIPPED.search(name)
        and (not paths or any(name == path or name.startswith(f"{path}/") for path in paths))
    ]
    found = {name: uses(name) for name in chosen}
    if "--count" in words:
        counts = Counter({name: len(each) for name, each in found.items() if each})
        for name, count in counts.most_common():
            print(count, name)  # noqa: T201
    else:
        for name, each in found.items():
            for line, word in each:
                print(f"{name}:{line}: {word}")  # noqa: T201
    return 1 if any(found.values()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
