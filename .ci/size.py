"""Report how large and how fine the program is, beside the targets.

Usage: ``size.py [--check | --list]``. With ``--check`` the exit status is 1 where a target is
missed; ``--list`` names the modules that one other imports and the functions that are called once.

What is counted, of the files that git tracks or would add:

* *shipped* Python is that of ``dragoman``, ``core`` and ``adapters``, without ``tests`` and without
  generated code (``_pb2``). A module is a file; the median is that of files but ``__init__.py``.
* a private function or method has a name with one leading underscore; it is called once if its file
  has the name in two places, its definition and one more, comments and strings included.
* a module has one importer if one other shipped module names it in an import statement.
* a cache is a row of the table in the section *Caches* of ``docs/concepts/architecture.md``.
* words of pages are those between white space in all Markdown files, also outside ``docs``, but
  translations (``.zh-CN.md``), where a word is a sentence.
* a walk runs in a process of its own, on a memory store with two nodes and the doubles of the
  tests. Counted are the shipped files of which a function is called, the first time that the
  process makes the call; what runs while a module is imported does not count.

The review of 28 November counted commit 4f516619 with other scripts. There this one gives the same
80,859 lines in 714 modules, median 106, 1,125 of 1,804 private functions, 21 caches, 118,364 words,
and walks through 52, 66 and 125 files. It finds 215 modules with one importer, the review 225.

The targets for lines and words are those of the review, and what features since then may add: of
3,600 lines 770 answer people by the service, 660 read workloads, 430 are the page's overview, and
800 say where claims fit and what keeps nodes from them; 900 words are the guide that takes nodes
from device plugins to claims and back.
"""

import ast
import contextlib
import io
import re
import statistics
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parents[1]
ROOMS = ("dragoman", "core", "adapters")
EXAMPLE = "configs/examples/mixed.yaml"
TARGETS = {
    "shipped Python lines": 66_000 + 3_600,
    "shipped modules": 400,
    "private functions called once, percent": 45,
    "caches on the filter path": 15,
    "words of pages": 75_000 + 1_000 + 900,
    "files entered by an extender filter": 35,
    "files entered by a Binding review": 45,
    "files entered by dragoman schedule -f": 85,
}
OPTIMIZED = 1
"""``CO_OPTIMIZED`` of ``inspect``: the code of a function, not of a class or module."""


def tracked() -> list[str]:
    """Files that git tracks or would add, and that exist."""
    words = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()  # noqa: S603
    return sorted({name for name in names if (ROOT / name).is_file()})


def is_shipped(name: str) -> bool:
    """Whether a file, named from the root, is Python that is installed and written by hand."""
    return (
        name.split("/")[0] in ROOMS
        and name.endswith(".py")
        and "/tests/" not in name
        and "_pb2" not in name
    )


def private_functions(trees: dict[str, ast.Module], texts: dict[str, str]) -> tuple[list[str], int]:
    """Private functions that are called once in their file, by place, and how many there are."""
    once: list[str] = []
    total = 0
    for name, tree in trees.items():
        uses = Counter(re.findall(r"\w+", texts[name]))
        private = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and node.name.startswith("_")
            and not node.name.startswith("__")
        ]
        total += len(private)
        once += [
            f"{name}:{node.lineno}: {node.name}, {(node.end_lineno or 0) - node.lineno + 1} lines"
            for node in private
            if uses[node.name] == 2
        ]
    return once, total


def only_importers(trees: dict[str, ast.Module]) -> dict[str, str]:
    """Per file that one other file imports: that file."""
    files = {name.removesuffix(".py").replace("/", "."): name for name in trees}
    found: dict[str, set[str]] = defaultdict(set)
    for name, tree in trees.items():
        modules: set[str] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                modules |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                modules |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        for module in modules & files.keys():
            found[files[module]].add(name)
    return {name: by.pop() for name, by in sorted(found.items()) if len(by) == 1}


def caches() -> int:
    """Rows of the table of caches."""
    text = (ROOT / "docs/concepts/architecture.md").read_text()
    section = text.partition("\n## Caches")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("|")]
    return max(0, len(rows) - 2)


def traced(work: Callable[[], object]) -> set[str]:
    """Run it, and return the shipped files that it enters."""
    entered: set[str] = set()
    root = f"{ROOT}/"

    def enter(frame: FrameType, event: str, _: object) -> None:
        if event != "call" or not frame.f_code.co_flags & OPTIMIZED:
            return
        name = frame.f_code.co_filename
        if not name.startswith(root) or name[len(root) :] in entered:
            return
        if is_shipped(name[len(root) :]) and not any(_is_import(each) for each in _stack(frame)):
            entered.add(name[len(root) :])

    def _is_import(frame: FrameType) -> bool:
        return frame.f_code.co_name == "<module>" and frame.f_code.co_filename.startswith(
            tuple(f"{root}{room}/" for room in ROOMS)
        )

    sys.setprofile(enter)
    try:
        work()
    finally:
        sys.setprofile(None)
    return entered


def _stack(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def walk_filter() -> set[str]:
    """Answer a filter of kube-scheduler for the first pod."""
    from adapters.service.endpoints.kube_extender import KubeExtender
    from adapters.service.endpoints.tests.kube_bodies import names
    from adapters.service.tests.builders import a_pod, a_service

    async def prepare() -> Coroutine[Any, Any, object]:
        bench = await a_service()
        return KubeExtender(bench.service).filter(names(a_pod(), "n1", "n2"))

    return _awaited(prepare())


def walk_review() -> set[str]:
    """Admit the Binding of a pod with a share."""
    from adapters.service.endpoints.admission import Admission
    from adapters.service.tests.builders import a_binding, a_pod, a_service, review

    async def prepare() -> Coroutine[Any, Any, object]:
        bench = await a_service(pods=[a_pod()])
        return Admission(bench.service).bindings(review(a_binding("p", "n1"), sub="binding"))

    return _awaited(prepare())


def walk_schedule() -> set[str]:
    """Place the pods of an example with the command."""
    from adapters.cli.main import main

    def work() -> None:
        sys.argv = ["dragoman", "schedule", "-f", EXAMPLE]
        with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
            main()

    return traced(work)


def _awaited(prepare: Coroutine[Any, Any, Coroutine[Any, Any, object]]) -> set[str]:
    """Trace what the coroutine prepares, without that preparation."""
    import asyncio

    with asyncio.Runner() as runner:
        call = runner.run(prepare)
        return traced(lambda: runner.run(call))


WALKS = {
    "files entered by an extender filter": walk_filter,
    "files entered by a Binding review": walk_review,
    "files entered by dragoman schedule -f": walk_schedule,
}


def started(walk: Callable[[], set[str]]) -> subprocess.Popen[str]:
    """Begin a walk in a process of its own."""
    words = [sys.executable, __file__, "--walk", walk.__name__]
    pipe = subprocess.PIPE
    return subprocess.Popen(words, cwd=ROOT, stdout=pipe, stderr=pipe, text=True)  # noqa: S603


def main(words: list[str]) -> int:
    """Print the report; exit status 1 with ``--check`` where a target is missed."""
    if words[:1] == ["--walk"]:
        sys.path[0] = str(ROOT)
        print(*sorted(next(walk for walk in WALKS.values() if walk.__name__ == words[1])()))
        return 0
    names = tracked()
    texts = {name: (ROOT / name).read_text() for name in names if is_shipped(name)}
    trees = {name: ast.parse(text) for name, text in texts.items()}
    lines = {name: len(text.splitlines()) for name, text in texts.items()}
    single = only_importers(trees)
    once, private = private_functions(trees, texts)
    if "--list" in words:
        print(
            *(f"{name}: {lines[name]} lines, only for {by}" for name, by in single.items()),
            sep="\n",
        )
        print(*once, sep="\n")
        return 0
    running = {title: started(walk) for title, walk in WALKS.items()}
    written = [count for name, count in lines.items() if not name.endswith("__init__.py")]
    figures: dict[str, float | None] = {
        "shipped Python lines": sum(lines.values()),
        "shipped modules": len(lines),
        "lines of the median file": round(statistics.median(written)),
        "modules with one importer": len(single),
        "private functions called once": len(once),
        "private functions called once, percent": 100 * len(once) / private,
        "caches on the filter path": caches(),
        "words of pages": sum(
            len((ROOT / name).read_text().split())
            for name in names
            if name.endswith(".md") and not name.endswith(".zh-CN.md")
        ),
    }
    for title, walk in running.items():
        output, errors = walk.communicate()
        figures[title] = len(output.split()) if walk.returncode == 0 else None
        if walk.returncode:
            print(f"{title}: {errors.strip().splitlines()[-1]}", file=sys.stderr)
    missed = False
    for title, figure in figures.items():
        target = TARGETS.get(title)
        is_missed = target is not None and (figure is None or figure > target)
        missed |= is_missed
        aim = "" if target is None else f"   at most {target:6,}{'   missed' if is_missed else ''}"
        print(f"{title:40}{'not traced' if figure is None else f'{figure:10,.0f}'}{aim}")
    return 1 if missed and "--check" in words else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
