"""Which files and which context are chosen, as kubectl chooses them."""

import json
import os
from pathlib import Path

import pytest

from adapters.cluster.api.credentials import choose, load
from adapters.cluster.api.error import ClusterError


def write(
    path: Path, *contexts: str, current: str | None = None, namespace: str | None = None
) -> Path:
    """A kubeconfig; each context has a cluster and a user of its own name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content: dict[str, object] = {
        "clusters": [
            {"name": each, "cluster": {"server": f"http://{path.stem}.{each}"}} for each in contexts
        ],
        "users": [{"name": each, "user": {"token": f"{path.stem}-{each}"}} for each in contexts],
        "contexts": [
            {
                "name": each,
                "context": {"cluster": each, "user": each}
                | ({"namespace": namespace} if namespace else {}),
            }
            for each in contexts
        ],
    }
    if current is not None:
        content["current-context"] = current
    path.write_text(json.dumps(content))
    return path


def test_the_file_in_the_home_directory_is_the_default(tmp_path: Path) -> None:
    write(tmp_path / ".kube" / "config", "home", current="home")

    chosen = choose(None, None, {}, tmp_path)

    assert (chosen.name, chosen.namespace) == ("home", "default")
    assert load(chosen.source).server == "http://config.home"


def test_the_variable_names_several_files_and_the_first_wins(tmp_path: Path) -> None:
    one = write(tmp_path / "one", "shared", "only-one", current="shared")
    two = write(tmp_path / "two", "shared", "only-two", current="only-two")
    environ = {"KUBECONFIG": os.pathsep.join(["", str(one), str(tmp_path / "missing"), str(two)])}

    current = choose(None, None, environ, tmp_path)
    other = choose(None, "only-two", environ, tmp_path)

    assert current.name == "shared"
    assert load(current.source).server == "http://one.shared"
    assert load(other.source).server == "http://two.only-two"


def test_a_given_file_is_the_only_one(tmp_path: Path) -> None:
    one = write(tmp_path / "one", "a", current="a")
    two = write(tmp_path / "two", "b", current="b", namespace="team")

    chosen = choose(two, None, {"KUBECONFIG": str(one)}, tmp_path)

    assert (chosen.name, chosen.namespace) == ("b", "team")


def test_an_unknown_context_is_an_error_with_the_known_ones(tmp_path: Path) -> None:
    file = write(tmp_path / "one", "b", "a", current="a")

    with pytest.raises(ClusterError, match=r"no context 'prod'; pass --context, one of: a, b"):
        choose(file, "prod", {}, tmp_path)


def test_a_file_without_a_current_context_needs_the_option(tmp_path: Path) -> None:
    file = write(tmp_path / "one", "a")

    with pytest.raises(ClusterError, match=r"no current context; pass --context, one of: a"):
        choose(file, None, {}, tmp_path)
    assert choose(file, "a", {}, tmp_path).name == "a"


def test_a_given_file_that_is_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=r"none: cannot be read: No such file"):
        choose(tmp_path / "none", None, {}, tmp_path)


def test_no_file_at_all_is_an_error_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=r"no kubeconfig: .* pass one, or read manifests with"):
        choose(None, None, {}, tmp_path)


def test_without_a_file_a_pod_uses_its_service_account(tmp_path: Path) -> None:
    chosen = choose(None, None, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, tmp_path)

    assert chosen.name == "in-cluster"
    assert chosen.source.kubeconfig is None


@pytest.mark.parametrize(
    ("content", "problem"),
    [("{", "is not YAML"), ("[]", "is not a kubeconfig"), ("contexts: 3", "no current context")],
)
def test_a_file_that_is_no_kubeconfig_is_named(tmp_path: Path, content: str, problem: str) -> None:
    file = tmp_path / "odd"
    file.write_text(content)

    with pytest.raises(ClusterError, match=problem) as found:
        choose(file, None, {}, tmp_path)

    assert str(file) in str(found.value)
