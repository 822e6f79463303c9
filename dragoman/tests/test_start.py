"""A foreign package ``adapters`` or ``core`` does not get in the way of the installed programs.

The wheel is built and unpacked as pip would install it; ``adapters`` of PyPI is played by a package
that fails where it is imported, as that one does without torch.
"""

import os
import subprocess
import sys
import zipfile
from configparser import ConfigParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOREIGN = "raise ModuleNotFoundError(\"No module named 'torch'\")\n"
PROGRAMS = {
    "dragoman": (["--version"], "dragoman "),
    "kubectl-dragoman": (["--version"], "dragoman "),
    "kubectl_complete-dragoman": (["wha"], "whatif\n:4\n"),
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    words = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(words, cwd=ROOT, check=True, capture_output=True)  # noqa: S603
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture
def installed(wheel: Path, tmp_path: Path) -> Path:
    """A folder of packages with the wheel in it."""
    with zipfile.ZipFile(wheel) as content:
        content.extractall(tmp_path / "site")
    return tmp_path / "site"


def foreign(folder: Path) -> Path:
    for name in ("core", "adapters"):
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / "__init__.py").write_text(FOREIGN)
    return folder


def run(
    *words: str, path: list[Path], cwd: Path | None = None
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(  # noqa: S603 - ourselves
        [sys.executable, *words],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))},
    )


def program(site: Path, name: str) -> str:
    """What pip writes as the script of an entry point."""
    (file,) = site.glob("*.dist-info/entry_points.txt")
    points = ConfigParser()
    points.optionxform = str  # type: ignore[assignment, method-assign]
    points.read(file)
    module, _, function = points["console_scripts"][name].partition(":")
    return f"import sys; sys.argv[0] = {name!r}; from {module} import {function} as f; f()"


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_foreign_package_before_ours_changes_nothing(
    installed: Path, tmp_path: Path, name: str
) -> None:
    words, answer = PROGRAMS[name]
    other = foreign(tmp_path / "foreign")

    done = run("-c", program(installed, name), *words, path=[other, installed], cwd=other)

    assert done.stdout.startswith(answer), done.stderr


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_foreign_package_that_pip_installs_over_ours_changes_nothing(
    installed: Path, name: str
) -> None:
    words, answer = PROGRAMS[name]
    foreign(installed)

    done = run("-c", program(installed, name), *words, path=[installed])

    assert done.stdout.startswith(answer), done.stderr


def test_the_command_as_a_module_is_not_changed_either(installed: Path, tmp_path: Path) -> None:
    other = foreign(tmp_path / "foreign")

    done = run("-m", "dragoman", "--version", path=[other, installed], cwd=other)

    assert done.stdout.startswith("dragoman "), done.stderr


def test_the_agent_starts_beside_a_foreign_package(installed: Path, tmp_path: Path) -> None:
    other, module = foreign(tmp_path / "foreign"), "adapters.agent"

    done = run("-P", "-m", "dragoman.module", module, path=[other, installed], cwd=other)

    assert (done.returncode, done.stderr) == (2, f"usage: python -m {module} CONFIG\n")


def test_the_command_becomes_the_agent_beside_a_foreign_package(
    installed: Path, tmp_path: Path
) -> None:
    other = foreign(tmp_path / "foreign")
    words = ["node", "--config", "none.yaml"]

    done = run("-m", "dragoman", *words, path=[other, installed], cwd=other)

    assert done.returncode == 2
    assert done.stderr.startswith("dragoman: "), done.stderr
    assert "none.yaml" in done.stderr


@pytest.mark.parametrize("name", ["core", "adapters"])
@pytest.mark.parametrize("program_name", PROGRAMS)
def test_a_foreign_package_that_is_loaded_already_is_named_in_one_sentence(
    installed: Path, tmp_path: Path, name: str, program_name: str
) -> None:
    other = foreign(tmp_path / "foreign")
    (other / name / "__init__.py").write_text("")
    code = f"import {name}; {program(installed, program_name)}"

    done = run("-c", code, "--version", path=[other, installed], cwd=other)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"dragoman: Python has the package {name} from {other / name / '__init__.py'}, "
        f"not from {installed / 'dragoman' / 'lib'}; "
        "install dragoman in an environment of its own, for instance with pipx\n"
    )


def test_a_loaded_package_without_a_spec_or_a_file_is_foreign(installed: Path) -> None:
    code = f"import sys, types; sys.modules['core'] = types.ModuleType('core'); {program(installed, 'dragoman')}"  # noqa: E501

    done = run("-c", code, path=[installed])

    assert done.returncode == 2
    assert "the package core from an unknown place" in done.stderr


def test_a_checkout_runs_its_own_packages(tmp_path: Path) -> None:
    other = foreign(tmp_path / "foreign")

    done = run("-m", "dragoman", "--version", path=[other, ROOT], cwd=other)

    assert done.stdout.startswith("dragoman "), done.stderr


def test_the_wheel_has_no_package_of_a_generic_name(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as content:
        tops = {name.partition("/")[0] for name in content.namelist()}

    assert [name for name in tops if not name.endswith(".dist-info")] == ["dragoman"]
