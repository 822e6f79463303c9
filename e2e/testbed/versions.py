"""What the test bed consists of, read from ``versions.toml``."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
# Where a Debian root is, below its component's place.
ROOT = "root"


@dataclass(frozen=True, slots=True)
class GoComponent:
    """Commands that are built from one Go module.

    Attributes:
        name: of the folder that holds its ``go.mod`` and ``go.sum``.
        version: of the module, as ``v1.2.3``.
        commands: package path of each binary.
        staging: version of the modules that upstream's ``go.mod`` replaces by local folders.
        replace: further replacements, module to "module version".
        assets: folders of the module that are copied beside the binaries, by name.
        ask: for a binary, the arguments after which it says its version.
        says: what it then says.
    """

    name: str
    module: str
    version: str
    commands: Mapping[str, str]
    staging: str
    replace: Mapping[str, str]
    tags: tuple[str, ...]
    stamp: Mapping[str, str]
    assets: Mapping[str, str]
    ask: Mapping[str, tuple[str, ...]]
    says: str

    @property
    def folder(self) -> Path:
        """Where its ``go.mod`` and ``go.sum`` are."""
        return HERE / self.name

    @property
    def binaries(self) -> dict[str, str]:
        """Path of each binary below the component's place in the cache."""
        return {command: f"bin/{command}" for command in self.commands}


@dataclass(frozen=True, slots=True)
class DebianComponent:
    """One Debian package, unpacked.

    Attributes:
        name: ours; two suites may give the same package.
        binaries: path of each binary inside the package.
        ask: for a binary, the arguments after which it says its version.
        says: what it then says.
    """

    name: str
    package: str
    suite: str
    binaries: Mapping[str, str]
    ask: Mapping[str, tuple[str, ...]]
    says: str


@dataclass(frozen=True, slots=True)
class RootComponent:
    """A small Debian with some packages, in a folder of the component's place.

    Attributes:
        name: ours.
        suite: Debian's release.
        packages: what it has besides the essential ones.
        binaries: of some programs, the path below the component's place.
        ask: for a binary, the arguments after which it says its version.
        says: what it then says.
    """

    name: str
    suite: str
    packages: tuple[str, ...]
    binaries: Mapping[str, str]
    ask: Mapping[str, tuple[str, ...]]
    says: str


Component = GoComponent | DebianComponent | RootComponent


def components() -> dict[str, Component]:
    """Every component by name, in the order in which they are built."""
    table = _table()
    found: dict[str, Component] = {name: _go(name, row) for name, row in table["go"].items()}
    found |= {name: _debian(name, row) for name, row in table["debian"].items()}
    found |= {name: _root(name, row) for name, row in table["root"].items()}
    return found


def of_kind_alone() -> frozenset[str]:
    """Names of the components that only the cluster in containers needs."""
    return frozenset(_table()["e2e-kind"])


def of_bench_alone() -> frozenset[str]:
    """Names of the components that only benchmarks need."""
    return frozenset(_table()["bench"])


def _table() -> dict[str, Any]:
    return tomllib.loads((HERE / "versions.toml").read_text())


def _go(name: str, row: Mapping[str, Any]) -> GoComponent:
    version = row["version"]
    bare = version.removeprefix("v")
    major, minor, *_ = bare.split(".")
    words = {"version": version, "bare": bare, "major": major, "minor": minor}
    return GoComponent(
        name=name,
        module=row["module"],
        version=version,
        commands=row["commands"],
        staging=row.get("staging", ""),
        replace=row.get("replace", {}),
        tags=tuple(row.get("tags", ())),
        stamp={key: value.format(**words) for key, value in row.get("stamp", {}).items()},
        assets=row.get("assets", {}),
        ask=_questions(row),
        says=row.get("says", "{bare}").format(**words),
    )


def _debian(name: str, row: Mapping[str, Any]) -> DebianComponent:
    return DebianComponent(
        name=name,
        package=row["package"],
        suite=row["suite"],
        binaries=row["binaries"],
        ask=_questions(row),
        says=row["says"],
    )


def _root(name: str, row: Mapping[str, Any]) -> RootComponent:
    return RootComponent(
        name=name,
        suite=row["suite"],
        packages=tuple(row["packages"]),
        binaries={key: f"{ROOT}/{path}" for key, path in row["binaries"].items()},
        ask=_questions(row),
        says=row["says"],
    )


def _questions(row: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    return {binary: tuple(words) for binary, words in row.get("ask", {}).items()}
