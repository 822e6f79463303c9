"""Reading a live cluster as kubectl would reach it."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from adapters.cli.fleet.fleet import documents
from adapters.cli.input.cluster import context_of, read_cluster
from adapters.cli.input.manifests import Manifests
from adapters.cli.input.source import InputError
from adapters.cli.main import app
from adapters.cli.tests.api_server import PATHS, ApiServer, api_server
from adapters.cli.tests.builders import Plain, device, node, pod, volcano


def named(name: str, namespace: str, **more: str) -> Plain:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": more,
    }


def read(server: ApiServer) -> Manifests:
    context = context_of(server.kubeconfig, None)
    return read_cluster(context, lambda _plural, _count: None)


def test_nodes_pods_devices_and_settings_are_read(tmp_path: Path) -> None:
    bound = pod("a", volcano(1), metadata={"namespace": "team", "uid": "u1"})
    settings = named("volcano-vgpu-device-config", "kube-system", key="value")
    things = [node("n1"), device("n1", "GPU-0"), bound, settings, named("other", "default")]

    with api_server(tmp_path, *things) as server:
        found = read(server)

    assert list(found.nodes) == ["n1"]
    assert list(found.devices) == ["n1"]
    assert list(found.pods) == ["team/a"]
    assert list(found.config_maps) == ["kube-system/volcano-vgpu-device-config"]
    assert found.ledgers == {}
    assert str(found.pods["team/a"][1]) == "cluster lab"


def test_hamis_settings_are_found_by_their_label(tmp_path: Path) -> None:
    """HAMi's chart names the ConfigMap after its release: charts/hami/templates/_helpers.tpl."""
    key = "device-config.yaml"
    labelled = named("gpu-hami-scheduler-device", "gpu", **{key: "nvidia: {defaultMemory: 7}"})
    labelled["metadata"]["labels"] = {"app.kubernetes.io/component": "hami-scheduler"}

    with api_server(tmp_path, node("n1"), labelled) as server:
        found = read(server)

    assert list(found.config_maps) == ["gpu/gpu-hami-scheduler-device"]
    read_by_commands = documents(found.config_maps)
    assert read_by_commands == {("hami-scheduler-device", key): {"nvidia": {"defaultMemory": 7}}}


def test_a_credential_helper_that_fails_ends_the_command_in_one_line_without_a_request(
    tmp_path: Path,
) -> None:
    helper = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "/bin/false",
        "interactiveMode": "Never",
        "installHint": "log in first",
    }
    with api_server(tmp_path, node("n1")) as server:
        content = json.loads(server.kubeconfig.read_text())
        content["users"] = [
            {"name": each["name"], "user": {"exec": helper}} for each in content["users"]
        ]
        server.kubeconfig.write_text(json.dumps(content))
        result = CliRunner().invoke(app, ["top", "--kubeconfig", str(server.kubeconfig)])

    assert (result.exit_code, server.verbs) == (2, [])
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("dragoman: ")
    assert line.endswith("credential helper /bin/false: process returned 1; log in first")


def test_no_request_changes_anything(tmp_path: Path) -> None:
    with api_server(tmp_path, node("n1")) as server:
        read(server)

    assert {verb for verb, _ in server.verbs} == {"GET"}


def test_more_objects_than_a_page_are_all_read(tmp_path: Path) -> None:
    counts: list[tuple[str, int]] = []

    with api_server(tmp_path, *(node(f"n{number}") for number in range(1200))) as server:
        found = read_cluster(
            context_of(server.kubeconfig, None),
            lambda plural, count: counts.append((plural, count)),
        )

    assert len(found.nodes) == 1200
    assert [count for plural, count in counts if plural == "nodes"] == [500, 1000, 1200]


def test_a_missing_permission_is_named_with_its_reason(tmp_path: Path) -> None:
    with api_server(tmp_path, node("n1")) as server:
        server.forbidden.add(PATHS["Pod"])

        with pytest.raises(InputError, match="must list pods in all namespaces, because pods of"):
            read(server)


def test_of_settings_in_several_namespaces_the_first_counts(tmp_path: Path) -> None:
    both = [named("volcano-vgpu-device-config", name) for name in ("kube-system", "a-copy")]

    with api_server(tmp_path, *both) as server:
        found = read(server)

    assert list(found.config_maps) == ["a-copy/volcano-vgpu-device-config"]


def test_a_server_that_is_away_is_an_error_with_its_address(tmp_path: Path) -> None:
    with api_server(tmp_path) as server:
        context = context_of(server.kubeconfig, None)

    with pytest.raises(InputError, match=r"cluster lab: no answer: GET .*127\.0\.0\.1"):
        read_cluster(context, lambda _plural, _count: None)
