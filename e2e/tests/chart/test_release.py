"""``make release`` without images, which need an engine: what it makes is complete and runs."""

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml

from adapters.cli.tests.api_server import api_server
from adapters.cli.tests.builders import node, volcano_bound
from e2e.harness.cluster import chart
from e2e.harness.processes.run import REPOSITORY

pytestmark = pytest.mark.timeout(900)

PROJECT = "https://git.example.com/dragoman"
CPUS = {"x86_64": "amd64", "aarch64": "arm64"}
HERE = f"linux-{CPUS.get(platform.machine())}"
"""The platform of the tests, in Go's words."""
EXAMPLE = REPOSITORY / "configs" / "examples" / "mixed.yaml"


def run(*words: str | Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    kept = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        words, capture_output=True, text=True, check=False, env={**kept, **environment}
    )


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("release")
    script = REPOSITORY / ".ci" / "release" / "release.py"
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    words = ("--images=skip", f"--project={PROJECT}", f"--plugins={HERE}", f"--pythons={python}")
    done = run(sys.executable, script, folder, *words, PYTHONPATH=str(REPOSITORY))
    if f"packages of {HERE} for Python" in done.stderr:
        pytest.skip(f"pip reaches no registry: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    return folder


def only(release: Path, pattern: str) -> Path:
    (found,) = release.glob(pattern)
    return found


def test_every_artifact_has_a_checksum(release: Path) -> None:
    sums = (release / "SHA256SUMS").read_text().splitlines()

    done = subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=release)

    assert done.returncode == 0
    listed = {line.split("  ")[1] for line in sums}
    assert listed == {file.name for file in release.iterdir()} - {"SHA256SUMS"}
    kinds = ("*.whl", "dragoman-*.tar.gz", "*.pex", "*.tgz", "*.cdx.json", "RELEASE-NOTES.md")
    assert all(any(release.glob(kind)) for kind in kinds)


def test_the_single_file_runs_without_this_checkout(release: Path, tmp_path: Path) -> None:
    file = only(release, "*.pex")
    version = only(release, "*.whl").name.split("-")[1]

    answer = run(sys.executable, file, "--version", PEX_ROOT=str(tmp_path))
    placed = run(sys.executable, file, "schedule", "-f", EXAMPLE, PEX_ROOT=str(tmp_path))

    assert answer.stdout == f"dragoman {version}\n", answer.stderr
    assert "pods placed" in placed.stdout, placed.stderr


def test_a_foreign_package_does_not_get_in_the_way_of_the_single_file_and_the_plugin(
    release: Path, tmp_path: Path
) -> None:
    for name in ("core", "adapters"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("import torch")
    file = only(release, "*.pex")
    where = {"PEX_ROOT": str(tmp_path / "pex"), "PYTHONPATH": str(tmp_path)}

    for kept in ("false", "prefer", "fallback"):
        answer = run(sys.executable, file, "--version", PEX_INHERIT_PATH=kept, **where)
        assert answer.stdout.startswith("dragoman "), answer.stderr
        words = {"PEX_MODULE": "dragoman.start:completion", "PEX_INHERIT_PATH": kept}
        completed = run(sys.executable, file, "wha", **words, **where)
        assert completed.stdout == "whatif\n:4\n", completed.stderr


def test_the_archive_that_the_manifest_of_krew_names_is_the_plugin(
    release: Path, tmp_path: Path
) -> None:
    manifest = yaml.safe_load((release / "krew-dragoman.yaml").read_text())
    (only_one,) = manifest["spec"]["platforms"]
    archive = release / only_one["uri"]
    with tarfile.open(archive) as content:
        content.extractall(tmp_path, filter="data")
    bin_folder = tmp_path / "bin"  # krew's own, with a link to the plugin
    bin_folder.mkdir()
    (bin_folder / only_one["bin"]).symlink_to(tmp_path / only_one["bin"])
    where = {"PATH": f"{bin_folder}:{os.environ['PATH']}"}

    used = run(bin_folder / only_one["bin"], "top", "--help", **where)
    placed = run(bin_folder / only_one["bin"], "schedule", "-f", EXAMPLE, "--summary", **where)
    other = run(bin_folder / only_one["bin"], "serve", **where)
    with api_server(tmp_path, node(), volcano_bound("a", 4000), namespace="default") as server:
        listed = run(
            bin_folder / only_one["bin"], "top", "pods", "--no-headers",
            "--kubeconfig", server.kubeconfig, **where,
        )  # fmt: skip
    completed = run(tmp_path / "kubectl_complete-dragoman", "wha", **where)

    assert hashlib.sha256(archive.read_bytes()).hexdigest() == only_one["sha256"]
    assert used.stdout.startswith("Usage: kubectl dragoman top [OPTIONS]"), used.stderr
    assert "pods placed" in placed.stdout, placed.stderr
    assert listed.stdout.split()[:4] == ["default", "a", "volcano", "node-a"], listed.stderr
    assert (other.returncode, other.stdout) == (2, "")
    assert "serve is no command of the plugin" in other.stderr
    assert completed.stdout == "whatif\n:4\n", completed.stderr
    assert archive.stat().st_size < 30_000_000


def test_the_plugin_says_which_python_it_needs_where_there_is_none(
    release: Path, tmp_path: Path
) -> None:
    with tarfile.open(only(release, "kubectl-dragoman-*.tar.gz")) as content:
        content.extractall(tmp_path, filter="data")
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("dirname", "readlink"):
        found = shutil.which(name)
        assert found is not None
        (tools / name).symlink_to(found)

    done = run("/bin/sh", tmp_path / "kubectl-dragoman", "top", PATH=str(tools))

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("kubectl-dragoman: needs a Python of 3.")


def test_wheel_and_sdist_have_the_program_and_no_tests(release: Path) -> None:
    with zipfile.ZipFile(only(release, "*.whl")) as wheel:
        names = wheel.namelist()
    with tarfile.open(only(release, "dragoman-*.tar.gz")) as sdist:
        sources = {name.partition("/")[2] for name in sdist.getnames()}

    packed = {name for name in names if ".dist-info/" not in name}
    assert "dragoman/lib/adapters/service/web/dashboard/static/index.html" in packed
    assert {name.removeprefix("dragoman/lib/") for name in packed} <= sources
    assert not [name for name in packed if "/tests/" in name]


def test_the_chart_package_renders_as_the_chart_does(release: Path) -> None:
    package = only(release, "*.tgz")

    rendered = chart.helm("template", "dragoman", package, "--kube-version=1.33.0")

    source = chart.helm("template", "dragoman", chart.CHART, "--kube-version=1.33.0")
    assert rendered == source


def test_the_chart_package_names_its_project(release: Path) -> None:
    found = yaml.safe_load(chart.helm("show", "chart", only(release, "*.tgz")))

    assert (found["home"], found["sources"]) == (PROJECT, [PROJECT])
    assert found["icon"]
    assert found["maintainers"]
