"""No text that a command reads gives a traceback: a report, or an error with status 2."""

import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from adapters.cli.main import app
from adapters.cli.tests.test_workloads import KINDS

ROOT = Path(__file__).parents[3]
FOLDERS = ("configs/examples", "docs/reference/cli", "adapters/cli/configure/defaults")
PATHS = [path for folder in FOLDERS for path in sorted((ROOT / folder).glob("*.yaml"))]
CERTIFICATE = {"certificate-authority-data": "QQ=="}
KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "c",
    "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
    "clusters": [{"name": "k", "cluster": {"server": "https://127.0.0.1:1", **CERTIFICATE}}],
    "users": [{"name": "u", "user": {"token": "t", "client-certificate-data": "QQ=="}}],
}
TEXTS = [[*yaml.safe_load_all(path.read_text())] for path in PATHS] + [[KUBECONFIG]] * 3
TEXTS += [[*TEXTS[0], workload] for workload, _ in KINDS.values()]

STDIN = [
    *(["schedule", "-o", form] for form in ("table", "json", "csv")),
    ["audit"],
    ["doctor", "--transition"],
    ["explain", "pod", "a"],
    *(["explain", kind, "w"] for kind in ("deployment", "job")),
    ["top", "nodes"],
    ["top", "cards", "-o", "wide"],
    ["who"],
    ["pending"],
    ["whatif", "--add", "gpu-1=1"],
    ["defrag", "--free-nodes", "1"],
    *(["translate", "--to", name] for name in ("volcano", "koordinator", "hami", "nvidia")),
    *(
        ["configure", scheduler, *more]
        for scheduler in ("kube-scheduler", "koord-scheduler", "vc-scheduler")
        for more in ([], ["--undo"])
    ),
]
FILE = [
    ["whatif", "-f", str(ROOT / "configs/examples/mixed.yaml"), "--pods"],
    ["defrag", "--dry-run", "--execute"],
    ["doctor", "--kubeconfig"],
    ["top", "nodes", "--kubeconfig"],
    ["mover", "--kubeconfig"],
    ["configure", "kube-scheduler", "--new", "--ca-data"],
    ["serve", "--listen", "300.1.1.1:1", "--config"],
]

LONG = "9" * 5000
VALUES: list[Any] = [
    *(None, True, -1, 1 << 63, 10**400, 1.5, float("inf"), float("nan"), 1e308),
    *("", "\0", "\ud800", LONG, f"{LONG}Gi", "1e999999999", "0x10", "٣", "1_000", " 5", "\u202e"),
    *("{}", "[", '{"a":1}', "GPU-a,1,2,3:", "a/b/c", "2026-99-99T00:00:00Z"),
    *([], {}, [[]], [None], {"a": None}, {"": ""}),
]
PIECES = ["", LONG, "\0", "-", "1e999", ":", ",", ";", "{", "[", '"', "\ud800", "null", "/"]
edits = st.lists(
    st.tuples(st.floats(0, 1, exclude_max=True), st.sampled_from([*VALUES, *PIECES]), st.booleans())
)


def nodes(content: Any) -> Iterator[tuple[Any, Any]]:
    """Each place of a content: the mapping or list, and its key."""
    keys = content if isinstance(content, dict) else range(len(content))
    for key in list(keys):
        yield content, key
        if isinstance(content[key], dict | list):
            yield from nodes(content[key])


def written(content: list[Any], form: str) -> bytes:
    if form == "yaml":
        text = str(yaml.safe_dump_all(content))
    elif form == "list":
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": content})
    else:
        text = "\n".join(map(json.dumps, content))
    # numbers that neither writer can write
    return text.replace(f'"{LONG}"', LONG).encode(errors="surrogatepass")


def run(words: list[str], text: bytes, file: Path) -> None:
    if words in FILE:
        file.write_bytes(text)
        words = [*words, str(file)]
    elif words[0] != "configure":
        words = [*words, "-f", "-"]
    result = CliRunner().invoke(app, words, input=text)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
    assert result.exit_code in (0, 1, 2)


@settings(
    max_examples=60,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    words=st.sampled_from(STDIN + FILE),
    content=st.sampled_from(TEXTS),
    edited=edits,
    form=st.sampled_from(["yaml", "list", "json"]),
)
def test_no_input_of_any_command_gives_a_traceback(
    tmp_path: Path,
    words: list[str],
    content: list[Any],
    edited: list[tuple[float, Any, bool]],
    form: str,
) -> None:
    changed = json.loads(json.dumps(content, default=str))
    for place, value, inside in edited[:3]:
        places = list(nodes(changed))
        if places:
            parent, key = places[int(place * len(places))]
            old = parent[key]
            if inside and isinstance(old, str) and isinstance(value, str):
                parent[key] = old[: len(old) // 2] + value + old[len(old) // 2 + 1 :]
            else:
                parent[key] = deepcopy(value)

    run(words, written(changed, form), tmp_path / "input.yaml")


@pytest.mark.parametrize("words", STDIN + FILE, ids=" ".join)
def test_a_long_number_and_an_empty_certificate_give_no_traceback(
    tmp_path: Path, words: list[str]
) -> None:
    share = {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": LONG}
    spec = {"containers": [{"name": "c", "resources": {"limits": share}}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec}

    for content in ([pod], [KUBECONFIG], [pod, KUBECONFIG]):
        for form in ("yaml", "json"):
            run(words, written(content, form), tmp_path / "input.yaml")
