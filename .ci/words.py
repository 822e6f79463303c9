"""Fail on words that docs/concepts/glossary.md replaces, and on docstrings that are no full phrase.

Usage: ``words.py [--count] [PATH...]``.

Without a path, all tracked text files are checked, except generated and captured files.
"""

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
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
    r"abreast": "concurrently",
    r"amiss|betimes|ere|whence|hence|oft|naught|aught|lest": "plain words",
    r"thereof|whereof|wherefrom|hitherto|thereby|wherein|therein|herein|whereby": "plain words",
    r"for want of|in need of mending|mend|mends|mended|mending": "without; repair, fix",
    r"takes? back|taken back|took back": "release",
    r"gives? away|given away|gave away|giving away": "allocate",
    r"books? of who|the books?|over-booked|overbooked": "the ledger; over-allocated",
    r"falls? ill|fell ill": "becomes unhealthy",
    r"foresaw|foreseen by": "expected",
}
"""Regular expressions of whole words, and what to write."""

IN_CODE = {
    r"so many": "a number, or the argument's name",
    r"(?<=, )be (?:it|they)": "also, or: valid or not",
    r"in whatever (?:amount|dialects?)": "in any, even with an amount of 0",
    r"of a no": "of a rejection",
}
"""More such expressions, for Python only."""

FRAGMENT = re.compile(
    r'^[ \t]*"""((?:Of|See|As|The same|Nothing|Its|Those|These|That of)(?![A-Za-z])'
    r'|(?:None|No)(?=[.:;"]))',
    re.MULTILINE,
)
"""How a docstring begins that continues a sentence which its reader has not seen.

A method of a protocol's implementation has ``Implements ``Store.read``.`` in place of "As in" and
"See"; a constant says what it is in place of "Of"; an empty answer is "Return no ...".
"""

CONTRACTS = re.compile(r"_versus_twin|\"twin\"|`compute_sold`")
"""Names that others rely on, or relied on: results of ``make bench``, a cause in the changelog."""


def whole_words(expressions: Iterable[str]) -> re.Pattern[str]:
    """Match any of the expressions as whole words of a text in lower case.

    Ignoring the case in the expression takes three times as long.
    """
    return re.compile(rf"(?<![a-z])({'|'.join(expressions)})(?![a-z])")


WORDS = whole_words(INSTEAD)
CODE_WORDS = whole_words((*INSTEAD, *IN_CODE))
SKIPPED = re.compile(
    r"^LICENSE$|_pb2|^e2e/captures/|/golden/|^\.ci/words\.py$|^docs/concepts/glossary\.md$|\.lock$|\.sum$|\.svg$"
    r"|^requirements/.*\.txt$"
)


def tracked() -> list[str]:
    """Files that git tracks or would add."""
    words = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()  # noqa: S603


def uses(path: str) -> list[tuple[int, str]]:
    """Line numbers and words; none for a binary or missing file."""
    try:
        text = Path(path).read_text()
    except (UnicodeDecodeError, IsADirectoryError, FileNotFoundError):
        return []
    is_code = path.endswith(".py")
    words = CODE_WORDS if is_code else WORDS
    if not words.search(text.lower()) and not (is_code and FRAGMENT.search(text)):
        return []
    found: list[tuple[int, str]] = []
    for number, line in enumerate(text.splitlines(), 1):
        found += [(number, word) for word in words.findall(CONTRACTS.sub("", line).lower())]
        if is_code and (fragment := FRAGMENT.match(line)):
            found.append((number, f'a docstring that begins with "{fragment[1]}"'))
    return found


def main(words: list[str]) -> int:
    """Print each use; exit status 1 if there is one."""
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
            print(count, name)
    else:
        for name, each in found.items():
            for line, word in each:
                print(f"{name}:{line}: {word}")
    return 1 if any(found.values()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
