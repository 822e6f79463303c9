"""A command reads files, else a cluster."""

from pathlib import Path

import pytest

from adapters.cli.input.origin import Origin
from adapters.cli.input.source import InputError
from adapters.cli.tests.api_server import api_server
from adapters.cli.tests.builders import node, stream, write


def test_files_take_the_place_of_a_cluster(tmp_path: Path) -> None:
    path = write(tmp_path, "nodes.json", stream(node("from-a-file")))

    origin = Origin([str(path)], tmp_path / "no-kubeconfig")

    assert list(origin.read().nodes) == ["from-a-file"]
    assert origin.namespace() is None


def test_without_files_a_cluster_is_read(tmp_path: Path) -> None:
    with api_server(tmp_path, node("live"), namespace="team") as server:
        origin = Origin((), server.kubeconfig)

        assert list(origin.read().nodes) == ["live"]
        assert origin.namespace() == "team"


def test_a_cluster_that_is_not_chosen_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)

    with pytest.raises(InputError, match=r"kubeconfig: no kubeconfig: .*read manifests with -f"):
        Origin().read()
