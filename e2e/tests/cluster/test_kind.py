"""The configuration of ``make e2e-kind``'s cluster, as far as it can be checked without an engine.

kind itself reads it, containerd what is patched into its own. No cluster is made.
"""

import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from e2e.harness.cluster.target import KIND
from e2e.kind.cluster import CONFIGURATION, configuration
from e2e.testbed import cache


def create(configuration: Path, folder: Path) -> str:
    """What kind says when it is to make a cluster and finds no Docker."""
    binary = cache.binary("kind", "kind")
    file = folder / "kubeconfig"
    environment = {"PATH": str(folder), "HOME": str(folder), "KIND_EXPERIMENTAL_PROVIDER": "docker"}
    done = subprocess.run(
        [binary, "create", "cluster", f"--config={configuration}", f"--kubeconfig={file}"],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert done.returncode == 1
    return done.stderr


def patches() -> list[str]:
    content = yaml.safe_load(CONFIGURATION.read_text())
    found: list[str] = content["containerdConfigPatches"]
    return found


def test_kind_accepts_the_configuration_and_fails_without_docker_alone(tmp_path: Path) -> None:
    said = create(CONFIGURATION, tmp_path)

    print(said)
    assert "unable to decode config" not in said
    assert "docker" in said


def test_kind_accepts_what_the_tests_add_to_the_configuration(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump(configuration(tmp_path)))

    assert "unable to decode config" not in create(file, tmp_path)


def test_kind_refuses_a_field_that_it_does_not_know(tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text(CONFIGURATION.read_text().replace("role: worker", "rolle: worker"))

    assert "field rolle not found in type v1alpha4.Node" in create(bad, tmp_path)


def test_the_cluster_has_the_name_that_the_option_looks_for() -> None:
    content = yaml.safe_load(CONFIGURATION.read_text())

    assert content["name"] == KIND
    assert [node["role"] for node in content["nodes"]] == ["control-plane", "worker", "worker"]


def test_there_is_a_patch_for_either_version_of_containerds_configuration() -> None:
    known = [tomllib.loads(patch) for patch in patches()]

    assert [each.pop("version") for each in known] == [2, 3]
    assert known[0] == known[1]


@pytest.mark.parametrize(
    ("component", "version"),
    [("containerd-1", 2), ("containerd-2", 2), ("containerd-2", 3), ("containerd", 3)],
)
def test_containerd_takes_the_patch_and_turns_nri_on(
    component: str, version: int, tmp_path: Path
) -> None:
    (patch,) = [each for each in patches() if tomllib.loads(each)["version"] == version]
    file = tmp_path / "config.toml"
    first, *rest = patch.splitlines()
    places = [f'root = "{tmp_path}/root"', f'state = "{tmp_path}/state"']
    file.write_text("\n".join([first, *places, *rest]))
    binary = cache.binary(component, "containerd")

    done = subprocess.run(
        [binary, "--config", file, "config", "dump"], capture_output=True, text=True, check=True
    )

    settings = tomllib.loads(done.stdout)["plugins"]["io.containerd.nri.v1.nri"]
    print(component, settings)
    assert settings["disable"] is False
    assert settings["plugin_request_timeout"] == "2s"
