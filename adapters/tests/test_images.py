"""The sources of the images exist and are complete."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]

IMPORTED = """
import sys
import tomllib
import adapters.agent.__main__, adapters.agent.main
found = {name.split(".")[0] for name in sys.modules}
print(*sorted(found - sys.stdlib_module_names))
"""

MODULES = {"pynvml": "nvidia-ml-py", "yaml": "pyyaml"}
"""Packages that are called otherwise than what is imported of them."""

NOBODYS = {"_distutils_hack", "_virtualenv", "typing_extensions", "cython_runtime", "__main__"}
"""Modules that are there without being asked for, or only if they are installed."""


def pins(lock: str) -> dict[str, str]:
    text = (ROOT / "requirements" / f"{lock}.txt").read_text()
    return dict(re.findall(r"^([a-z0-9-]+)==([^\s;]+)", text, re.MULTILINE))


def test_the_nodes_image_has_what_the_agent_imports_and_nothing_else() -> None:
    done = subprocess.run(  # noqa: S603 - ourselves
        [sys.executable, "-c", IMPORTED], capture_output=True, text=True, check=True, cwd=ROOT
    )
    words = {MODULES.get(name, name) for name in done.stdout.split()}
    foreign = {name for name in words if not name.startswith("_cython")} - NOBODYS

    assert foreign - {"adapters", "core"} == set(pins("node"))
    assert pins("node").items() <= pins("run").items()


def test_every_lock_has_hashes_and_names_no_index() -> None:
    for lock in sorted((ROOT / "requirements").glob("*.txt")):
        text = lock.read_text()

        blocks = re.split(r"^(?=[a-z0-9-]+==)", text, flags=re.MULTILINE)[1:]
        assert all("--hash=sha256:" in block for block in blocks), lock.name
        assert not re.search(r"https?://|^-", text, re.MULTILINE), lock.name


def test_the_dockerfile_takes_only_what_its_context_has() -> None:
    text = (ROOT / "Dockerfile").read_text()
    ignored = (ROOT / ".dockerignore").read_text().splitlines()

    needed = {*re.findall(r"-r (requirements/\S+)", text), "pyproject.toml", "README.md", "LICENSE"}
    assert [name for name in needed if not (ROOT / name).exists()] == []
    assert ignored[0] == "*"
    kept = {line.removeprefix("!") for line in ignored if line.startswith("!")}
    assert {name.split("/")[0] for name in needed} | {"dragoman", "core", "adapters"} == kept


def test_no_step_of_the_dockerfile_installs_without_hashes_and_the_service_is_not_root() -> None:
    text = (ROOT / "Dockerfile").read_text()
    installs = [line for line in text.replace("\\\n", " ").splitlines() if " install " in line]

    assert len(installs) == 5
    assert all("--require-hashes" in line or "--no-index" in line for line in installs)
    service, node = text.split(" AS service\n")[1].split(" AS node\n")
    assert "USER 65532:65532" in service
    assert "USER" not in node


def test_each_image_starts_a_program_that_no_foreign_package_hides() -> None:
    entries = re.findall(r"^ENTRYPOINT (.*)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    service, node = (json.loads(entry) for entry in entries)

    assert project["scripts"][service[0]] == "dragoman.start:command"
    assert node == ["python", "-P", "-m", "dragoman.module", "adapters.agent"]


BOUND = re.compile(r"^([a-z0-9-]+)[>=]=([\d.]+)(?:;|$)")
"""A lower bound, or the one version that is allowed."""


def test_the_project_declares_every_package_of_the_lock_with_a_lower_bound() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = [*project["dependencies"], *project["optional-dependencies"]["grpc"]]
    listed = re.findall(
        r"^([a-z][a-z0-9-]*)", (ROOT / "requirements/run.in").read_text(), re.MULTILINE
    )

    bounds = {name: bound for one in declared for name, bound in BOUND.findall(one)}
    assert sorted(bounds) == sorted(listed)
    locked = pins("run")
    assert [
        name for name, bound in bounds.items() if as_numbers(locked[name]) < as_numbers(bound)
    ] == []


def as_numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
