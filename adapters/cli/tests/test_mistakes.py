"""What a new user gets wrong in the first hour: each mistake, and what the answer must say.

An answer names the place, the value and the remedy, in one line, with exit status 2; what is wrong
in a pod or a node is in the report of ``schedule``.
"""

import socket
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from adapters.cli.main import app
from adapters.cli.tests.builders import Plain, node, pod, stream, uuid, volcano, volcano_bound

NO_CARDS: Plain = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a"}}


def invoke(*words: str, stdin: str | bytes = "") -> Result:
    return CliRunner().invoke(app, list(words), input=stdin)


@pytest.fixture(autouse=True)
def clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty folder, and no kubeconfig."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("KUBECONFIG", "DRAGOMAN_KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)


FILES: dict[str, tuple[bytes | None, str]] = {
    "missing": (None, "dragoman: FILE: cannot be read: No such file or directory"),
    "not YAML": (b"a: [1\n", "dragoman: FILE:2: is not YAML: did not find expected ',' or ']'"),
    "empty": (b"", "dragoman: FILE: contains no manifest"),
    "text": (b"hello\n", "dragoman: FILE:1: a manifest is a mapping with apiVersion, kind"),
    "binary": (b"\x7fELF\x02\xff\xfe", "dragoman: FILE:1: is not UTF-8 text"),
    "a Deployment": (
        b"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\n",
        "dragoman: FILE:1: Deployment default/d: ",
    ),
    "a duplicate": (
        b"kind: Node\nmetadata: {name: a}\n---\nkind: Node\nmetadata: {name: a}\n",
        "dragoman: FILE:4: Node a is a duplicate; the first one is at FILE:1",
    ),
    "no name": (b"kind: Node\nmetadata: {}\n", "dragoman: FILE:1: metadata.name is missing"),
}


@pytest.mark.parametrize("command", ["schedule", "audit", "top", "pending", "serve"])
@pytest.mark.parametrize("mistake", FILES)
def test_a_file_that_cannot_be_used(mistake: str, command: str) -> None:
    content, answer = FILES[mistake]
    if content is not None:
        Path("FILE").write_bytes(content)

    result = invoke(command, "-f", "FILE")

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(answer)
    assert result.stderr.count("\n") == 1


def test_an_empty_folder() -> None:
    Path("manifests").mkdir()

    result = invoke("schedule", "-f", "manifests")

    assert result.exit_code == 2
    assert result.stderr == "dragoman: manifests: no .json, .yaml, .yml file in this folder\n"


@pytest.mark.parametrize("text", ["", "\n \n", "# nothing\n---\n", "---  # nothing\n---\n\t\n"])
@pytest.mark.parametrize("form", [(), ("-o", "json"), ("--strict",)])
def test_a_translation_of_nothing(text: str, form: tuple[str, ...]) -> None:
    result = invoke("translate", "--to", "hami", *form, stdin=text)

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "dragoman: stdin: contains no manifest\n"


@pytest.mark.parametrize("text", ["kind: Pod\n", "---\n{}\n", "# a\n  - b\n"])
def test_a_translation_of_anything_else_is_the_text(text: str) -> None:
    result = invoke("translate", "--to", "hami", stdin=text)

    assert (result.exit_code, result.stdout) == (0, text)


WORDS = {
    "shedule": "No such command 'shedule'. Did you mean 'schedule'?",
    "schedule --filenam x": "No such option: --filenam (Possible options: --filename)",
    "schedule": "Invalid value for -f: pass at least one",
    "schedule -f - -o xml": "'xml' is not one of 'table', 'json', 'yaml', 'csv', 'name'.",
    "schedule -f - --node-policy best": "'best' is not one of 'binpack', 'spread'.",
    "top podz": "'podz' is not one of 'nodes', 'cards', 'pods', 'namespaces'.",
    "configure foo": "'foo' is not one of 'kube-scheduler', 'koord-scheduler', 'vc-scheduler'.",
    "explain pod": "must be: pod NAME",
    "translate": "Missing option '--to'",
    "translate --to xyz": "must be one of volcano, koordinator, metax, hami",
    "node": "pass the node's configuration",
    "whatif -f -": "pass a change: --pods, --add, --remove, --node-policy or --device-policy",
    "top --interval x": "Invalid value for '--interval'",
}


@pytest.mark.parametrize("words", WORDS)
def test_wrong_arguments(words: str) -> None:
    result = invoke(*words.split())

    assert (result.exit_code, result.stdout) == (2, "")
    assert WORDS[words] in result.stderr
    assert not [word for word in ("Value error", "Input should", "{") if word in result.stderr]


SERVE = {
    "--listen 127.0.0.1:99999": "listen: '127.0.0.1:99999': must be HOST:PORT with a port up to",
    "--listen nonsense": "listen: 'nonsense': must be HOST:PORT with a port up to 65535, such as",
    "--listen 192.0.2.1:9595 --store memory": "listen: 192.0.2.1:9595: Cannot assign requested"
    " address; listen on an address of this machine, such as 127.0.0.1 or 0.0.0.0",
    "--store postgres:x": "store: 'postgres:x': must be memory, sqlite:PATH or kubernetes",
    "--store kubernetes": "store: 'kubernetes': no kubeconfig: neither the setting kubeconfig,"
    " KUBECONFIG nor ",
    "--store sqlite:none/db": "store: sqlite:none/db: unable to open database file; its folder"
    " must exist and be writable",
    "--store sqlite:TEXT": "store: sqlite:TEXT: file is not a database; name a new file, or one"
    " that Dragoman made",
    "--config none.yaml": "none.yaml: cannot be read: No such file or directory",
    "--config UNKNOWN": "UNKNOWN:2: unknown key bogus; known: agentPort, ",
    "--config NESTED": "NESTED:2: unknown key policy.nod; known: card, node, topologyAware",
    "--config VALUE": "VALUE:1: holdSeconds: 0: ",
    "--config BROKEN": "BROKEN:2: is not YAML: expected ',' or ']', but got '<stream end>'",
    "--config LIST": "LIST: must be a mapping of settings",
}

CONFIGS = {
    "TEXT": "ledgers " * 1000,
    "UNKNOWN": "store: memory\nbogus: 1\n",
    "NESTED": "policy:\n  nod: binpack\n",
    "VALUE": "holdSeconds: 0\n",
    "BROKEN": "listen: [1\n",
    "LIST": "- store: memory\n",
}


@pytest.mark.parametrize("words", SERVE)
def test_a_service_that_cannot_start(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGOMAN_GRPC", "off")
    for name, text in CONFIGS.items():
        Path(name).write_text(text)
    port = [] if "--listen" in words else ["--listen", "127.0.0.1:0"]

    result = invoke("serve", *words.split(), *port)

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"dragoman: {SERVE[words]}")
    assert result.stderr.count("\n") == 1


def test_a_quota_that_the_service_cannot_obey() -> None:
    quota = {
        "apiVersion": "dragoman.dev/v1alpha1",
        "kind": "ShareQuota",
        "metadata": {"name": "dragoman", "namespace": "ml"},
        "spec": {"memory": "1Gi"},
    }

    result = invoke("serve", "-f", "-", stdin=stream(node(), quota))

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        "dragoman: stdin:2: metadata.name: 'dragoman': a namespace has one ShareQuota, named"
        " quota\n"
    )


def test_a_port_that_is_taken() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"

        result = invoke("serve", "--store", "memory", "--listen", address)

    assert result.exit_code == 2
    remedy = "stop the process that has it, or listen on another port"
    assert result.stderr == f"dragoman: listen: {address}: Address already in use; {remedy}\n"


KUBECONFIG = """apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: lab, context: {cluster: c, user: u}}]
"""

CLUSTERS = {
    "audit": "no kubeconfig: neither --kubeconfig, KUBECONFIG nor ",
    "top --kubeconfig none": "dragoman: kubeconfig: none: cannot be read: No such file",
    "pending --kubeconfig KUBE": "KUBE: no current context; pass --context, one of: lab",
    "who a --kubeconfig KUBE --context x": "KUBE: no context 'x'; pass --context, one of: lab",
    "doctor --kubeconfig KUBE --context lab": "dragoman: cluster lab: no answer: GET /version:"
    " 127.0.0.1:1: Connection refused",
}


@pytest.mark.parametrize("words", CLUSTERS)
def test_a_cluster_that_cannot_be_read(words: str) -> None:
    Path("KUBE").write_text(KUBECONFIG)

    result = invoke(*words.split())

    assert (result.exit_code, result.stdout) == (2, "")
    assert CLUSTERS[words] in result.stderr
    assert result.stderr.count("\n") == 1


@dataclass(frozen=True)
class PodMistake:
    """A pod, and what ``schedule`` says of it.

    Attributes:
        limits: of its container.
        answer: in the report or on standard error.
        status: the exit status.
        annotations: of the pod.
    """

    limits: Plain
    answer: str
    status: int = 1
    annotations: Plain | None = None


def memory(amount: str | int) -> Plain:
    return {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": amount}


FIELD = "spec.containers[main].resources"
UNIT = "must be a plain number of units of 1 MiB, 1 or more"

PODS = {
    "a unit": PodMistake(memory("4Gi"), f"{FIELD}.limits[volcano.sh/vgpu-memory]: '4Gi': {UNIT}"),
    "a unit that does not exist": PodMistake(memory("4000Mib"), f"'4000Mib': {UNIT}"),
    "a negative amount": PodMistake(memory(-5), f"-5: {UNIT}"),
    "two dialects": PodMistake(
        volcano(5) | {"koordinator.sh/gpu-core": 5},
        "mixes the dialects volcano, koordinator; use one of them",
    ),
    "a wrong value of an annotation": PodMistake(
        volcano(5),
        "metadata.annotations[volcano.sh/vgpu-mode]: 'foo': must be hami-core or mig,",
        annotations={"volcano.sh/vgpu-mode": "foo"},
    ),
    "a wrong name of a resource": PodMistake(
        volcano(5) | {"volcano.sh/vgpu-memoryy": 1},
        f"{FIELD}[volcano.sh/vgpu-memoryy]: 1: must be one of volcano.sh/vgpu-cores, ",
    ),
    "a wrong name of an annotation of HAMi": PodMistake(
        volcano(5),
        "metadata.annotations[nvidia.com/use-gputyp]: no dialect reads it; did you mean"
        " nvidia.com/use-gputype?",
        0,
        {"nvidia.com/use-gputyp": "A100"},
    ),
    "a wrong name of an annotation of Volcano": PodMistake(
        volcano(5), "did you mean volcano.sh/vgpu-mode?", 0, {"volcano.sh/vgpu-mod": "mig"}
    ),
    "a wrong name of an annotation of MetaX": PodMistake(
        {"metax-tech.com/sgpu": 1},
        "did you mean metax-tech.com/sgpu-qos-policy?",
        1,
        {"metax-tech.com/sgpu-qos": "x"},
    ),
    "an accelerator that no dialect counts": PodMistake(
        {"huawei.com/Ascend910B": 1},
        f"{FIELD}[huawei.com/Ascend910B]: Dragoman does not count this resource",
        0,
    ),
    "more memory than any card has": PodMistake(
        volcano(99999), "node-a: 2 of 2 cards: memory 89999 MiB short"
    ),
}


@pytest.mark.parametrize("mistake", PODS)
def test_a_pod_that_cannot_be_placed_as_it_is_meant(mistake: str) -> None:
    case = PODS[mistake]
    metadata = {"annotations": case.annotations or {}}

    result = invoke(
        "schedule", "-f", "-", stdin=stream(node(), pod(limits=case.limits, metadata=metadata))
    )

    assert result.exit_code == case.status
    assert case.answer in result.output
    assert result.output.count(case.answer) == 1


def test_two_requests_of_hami_share_a_card() -> None:
    register = f"{uuid(0)},10,24576,100,NVIDIA-A10,0,true,0,hami-core:"
    metadata = {"name": "node-a", "annotations": {"hami.io/node-nvidia-register": register}}
    request = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 4000}
    things = [NO_CARDS | {"metadata": metadata}, pod("a", request), pod("b", request)]

    result = invoke("schedule", "-f", "-", stdin=stream(*things))

    assert (result.exit_code, result.stderr) == (0, "")
    assert "2 of 2 pods placed" in result.stdout


@pytest.mark.parametrize(
    ("register", "why"),
    [
        ("GPU-1,10,24576", "volcano.sh/node-vgpu-register: entry 0 has 3 fields"),
        ("", "annotation volcano.sh/node-vgpu-register lists no cards"),
    ],
)
@pytest.mark.parametrize("words", ["schedule", "explain p", "pending", "schedule -o json"])
def test_a_description_that_gives_no_card_is_named_in_every_answer(
    words: str, register: str, why: str
) -> None:
    metadata = {"name": "node-a", "annotations": {"volcano.sh/node-vgpu-register": register}}
    things = [NO_CARDS | {"metadata": metadata}, NO_CARDS | {"metadata": {"name": "cpu"}}]

    result = invoke(*words.split(), "-f", "-", stdin=stream(*things, pod("p", volcano(1))))

    assert why in result.stdout


@pytest.mark.parametrize("command", ["schedule", "audit", "top"])
def test_nodes_without_any_card(command: str) -> None:
    result = invoke(command, "-f", "-", stdin=stream(NO_CARDS))

    assert result.exit_code == 0
    assert result.stderr == (
        "warning: none of 1 nodes has cards: no annotation of a device plugin, no Device and no"
        " NodeLedger describes any\n"
    )


def test_a_card_that_two_pods_have() -> None:
    things = stream(node(cards=1), volcano_bound("a", 8000), volcano_bound("b", 8000))

    scheduled = invoke("schedule", "-f", "-", stdin=things)
    audited = invoke("audit", "-f", "-", stdin=things)

    assert scheduled.exit_code == audited.exit_code == 1
    assert "default/a (volcano) 7.8 GiB, default/b (volcano) 7.8 GiB" in audited.stdout


NAMED: dict[str, tuple[tuple[str, ...], str]] = {
    "a node": (("who", "node-x"), "no node 'node-x'; nodes: node-a"),
    "a card": (("who", "node-a/9"), "node node-a has no card '9'; cards: 0 ("),
    "a pod": (("explain", "pod", "x", "-n", "default"), "pod x: is not in namespace default"),
    "a namespace": (
        ("explain", "pod", "pod-a", "-n", "ml"),
        "is not in namespace ml; there is default/pod-a, see -n",
    ),
    "a field": (("top", "--sort", "x"), "--sort: 'x' is no field; fields: node, model, "),
    "a number of nodes": (("whatif", "--add", "x"), "--add: 'x' must be NODE=COUNT, with COUNT"),
    "a node to drain": (("whatif", "--remove", "x"), "--remove: no node 'x'; nodes: node-a"),
}


@pytest.mark.parametrize("mistake", NAMED)
def test_a_name_that_does_not_exist(mistake: str) -> None:
    words, answer = NAMED[mistake]

    result = invoke(*words, "-f", "-", stdin=stream(node(), pod(limits=volcano(1))))

    assert (result.exit_code, result.stdout) == (2, "")
    assert answer in result.stderr
    assert result.stderr.count("\n") == 1


def test_the_list_of_commands_cuts_no_sentence_off() -> None:
    assert "..." not in invoke("-h").stdout.replace("[ARGS]...", "")


@pytest.mark.parametrize("command", ["schedule", "node", "configure"])
def test_the_help_of_a_choice_names_its_values(command: str) -> None:
    values = {
        "schedule": ["FORMAT", "table, json, yaml, csv or name", "POLICY", "binpack or spread"],
        "node": ["-config FILE"],
        "configure": ["kube-scheduler, koord-scheduler or vc-scheduler"],
    }

    shown = " ".join(invoke(command, "-h").stdout.split()).replace("- ", "-")

    assert [text for text in values[command] if text not in shown] == []
