"""What ``make e2e-kind`` runs, as far as it can be checked without Docker.

kind itself reads the cluster's configuration, containerd what is patched into its own, helm and
kind list the flags that they know. No cluster is made.
"""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from e2e import kind
from e2e.harness.cluster.target import KIND
from e2e.harness.processes.run import REPOSITORY
from e2e.testbed import cache

CONFIGURATION = REPOSITORY / kind.CONFIGURATION
HERE = Path("KUBECONFIG")


def output(*words: str | Path) -> str:
    """What a command says, however it ends."""
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


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


def test_helm_and_kind_know_every_flag_that_they_are_given() -> None:
    commands = [
        *kind.preparation(HERE),
        *kind.installation(HERE),
        kind.deletion(HERE),
    ]
    binaries = {
        "helm": cache.binary("helm", "helm"),
        "kind": cache.binary("kind", "kind"),
        "kubectl": cache.binary("kubernetes", "kubectl"),
    }
    for program, *words in commands:
        if program == "docker":
            continue
        plain = [word for word in words if not word.startswith("--")]
        # helm upgrade NAME CHART, kubectl get KINDS, kind VERB THING.
        verbs = plain[:2] if program == "kind" else plain[:1]
        known = output(binaries[program], *verbs, "--help")
        if program == "kubectl":
            known += output(binaries[program], "options")
        flags = {word.partition("=")[0] for word in words if word.startswith("--")}
        print(program, *verbs, *sorted(flags))
        for flag in flags:
            assert re.search(rf"{flag}\b", known), f"{program} {verbs}: {flag}"


def test_volcanos_own_chart_takes_our_settings() -> None:
    helm, chart = cache.binary("helm", "helm"), cache.asset("volcano", "chart")
    settings = [f"--set={setting}" for setting in kind.VOLCANO.settings]

    said = output(helm, "template", "volcano", chart, *settings)

    policies = set(re.findall(r"imagePullPolicy: (\S+)", said))
    print(len(said), "characters, pull policies", policies)
    assert policies == {"IfNotPresent"}


def test_a_dry_run_prints_the_commands_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    assert kind.main(["--dry-run"]) == 0

    lines = capsys.readouterr().out.splitlines()
    print("\n".join(lines))
    programs = [line.split()[0] for line in lines if not line.startswith(("docker", "kind load"))]
    assert programs[:4] == ["kind", "helm", "helm", "kubectl"]
    assert "pytest e2e --cluster=kind" in lines[-2]
    assert lines[-1].startswith("kind delete cluster")


def test_what_is_missing_is_named_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("DRAGOMAN_TESTBED", str(tmp_path))

    assert kind.main([]) == 1

    (line,) = capsys.readouterr().out.splitlines()
    for name in ("docker", "kind", "helm", "kubectl"):
        assert f"{name} is not installed" in line


def test_an_engine_that_does_not_answer_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("docker", *kind.PARTS):
        (tmp_path / name).write_text("#!/bin/sh\nexit 1\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))

    assert kind.obstacles() == ["the docker command finds no engine (docker info fails)"]
