"""Replay of what a service recorded: random histories through the real one, and damaged files."""

import json
import os
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path
from random import Random

import msgspec
import pytest

from adapters.cli.demo.schedulers import (
    RejectionError,
    SchedulerClient,
    kube_preempt,
    kube_scheduler,
    vc_scheduler,
)
from adapters.cli.input.manifests import manifests
from adapters.cli.input.source import sources
from adapters.cli.tests.builders import node, stream, volcano, write
from adapters.cli.tests.command import command
from adapters.cli.tests.gangs import KUBERNETES, group, member
from adapters.service.tests.builders import a_pod
from adapters.service.tests.process import EXAMPLE, serving
from adapters.wire.kube import Pod, full_name

STEPS = 50

UNDESCRIBED = "stranger"
PLAIN = msgspec.convert(a_pod(limits={"nvidia.com/gpu": 1}), Pod)
"""A pod that a device plugin serves, and a node where nothing else does."""


def history(folder: Path, seed: int) -> Path:
    """Drive a service that records as two schedulers and people do; the recording."""
    dice = Random(seed)  # noqa: S311
    with EXAMPLE.open("rb") as stdin:
        found = manifests(sources([str(EXAMPLE)], stdin))
    nodes = [*found.nodes, UNDESCRIBED]
    models = [pod for pod, _ in found.pods.values() if not pod.spec.node_name]
    models += [PLAIN] * 3
    file = folder / "decisions.jsonl"
    environment = os.environ | {
        "DRAGOMAN_GRPC": "off",
        "DRAGOMAN_DECISIONS_RECORD": str(file),
    }
    pods: list[str] = []
    with (
        serving(folder, "--store", "memory", env=environment) as running,
        closing(SchedulerClient(running.address)) as client,
    ):
        for step in range(STEPS):
            if pods and dice.random() < 0.25:
                client.delete(pods.pop(dice.randrange(len(pods))))
                continue
            with suppress(RejectionError):
                pod = client.create(renamed(dice.choice(models), f"pod-{step}"))
                pods.append(full_name(pod))
                by = vc_scheduler if dice.random() < 0.5 else kube_scheduler
                asked = dice.sample(nodes, dice.randint(1, len(nodes)))
                try:
                    by(client, pod, asked)
                except RejectionError:
                    above = important(pod)
                    evict_for_volcano(client, above)
                    kube_preempt(client, above, asked)
        assert running.stop() == 0
    return file


def important(pod: Pod) -> Pod:
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, priority=1000))


def evict_for_volcano(client: SchedulerClient, pod: Pod) -> None:
    """Ask for the victims of a preemption among all pods, as vc-scheduler does."""
    bound = [each for each in client.call("GET", "/local/pods") if each["spec"].get("nodeName")]
    evictees = [
        {"UID": each["metadata"]["uid"], "NodeName": each["spec"]["nodeName"], "Pod": each}
        for each in bound
    ]
    evictor = {"UID": pod.metadata.uid, "Pod": msgspec.to_builtins(pod)}
    client.call("POST", "/volcano/preemptable", {"evictor": evictor, "evictees": evictees})


def renamed(pod: Pod, name: str) -> Pod:
    metadata = msgspec.structs.replace(pod.metadata, namespace="default", name=name, uid="")
    return msgspec.structs.replace(pod, metadata=metadata)


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return history(tmp_path_factory.mktemp("recording"), 7)


def kinds(file: Path) -> Counter[str]:
    return Counter(json.loads(line)["record"] for line in file.read_bytes().splitlines())


def test_a_random_history_replays_to_the_same_decisions(recording: Path) -> None:
    counts = kinds(recording)
    every = (
        *("filter", "reject", "prioritize", "predicate", "score", "allocate"),
        *("reserve", "commit", "preempt"),
    )

    result = command("replay", recording)

    assert [kind for kind in every if not counts[kind]] == []
    decisions = sum(counts[kind] for kind in every)
    assert result.exit_code == 0, result.output
    assert result.stdout.endswith(f"\n{decisions} decisions replayed, 0 differ\n")
    assert result.stderr == ""


def test_another_policy_lists_the_decisions_that_it_changes(recording: Path) -> None:
    binpack, spread = (
        command(
            "replay", recording, "--node-policy", policy, "--device-policy", policy, "-o", "json"
        )
        for policy in ("binpack", "spread")
    )

    rows = [row for each in (binpack, spread) for row in json.loads(each.stdout)["items"]]
    assert 1 in {binpack.exit_code, spread.exit_code}
    assert {row["decision"] for row in rows} >= {"prioritize", "allocate", "reserve"}
    held = [row for row in rows if row["decision"] in ("allocate", "reserve")]
    assert all(row["recorded"] != row["replayed"] for row in held)


def test_an_answer_that_the_service_would_not_give_is_found(
    recording: Path, tmp_path: Path
) -> None:
    lines = recording.read_bytes().splitlines(keepends=True)
    at = next(i for i, line in enumerate(lines) if b'"commit"' in line and b'"grants"' in line)
    changed = json.loads(lines[at])
    changed["grants"][0]["memory"] += 1
    lines[at] = json.dumps(changed).encode() + b"\n"
    (tmp_path / "file").write_bytes(b"".join(lines))

    result = command("replay", tmp_path / "file", "--no-headers")

    assert result.exit_code == 1
    assert len(result.stdout.splitlines()) == 1
    assert "commit" in result.stdout


def test_other_victims_and_scores_are_found(recording: Path, tmp_path: Path) -> None:
    lines = [json.loads(line) for line in recording.read_bytes().splitlines()]
    preempted = next(each for each in lines if each["record"] == "preempt" and "victims" in each)
    scored = next(each for each in lines if each["record"] == "score")
    preempted["victims"], scored["scores"] = [], dict.fromkeys(scored["scores"], 50)
    (tmp_path / "file").write_bytes(b"".join(json.dumps(each).encode() + b"\n" for each in lines))

    result = command("replay", tmp_path / "file", "-o", "json")

    rows = {row["decision"]: row for row in json.loads(result.stdout)["items"]}
    assert result.exit_code == 1
    assert rows.keys() == {"preempt", "score"}
    assert rows["preempt"]["recorded"] == f"{preempted['node']}: evicts no pod"
    assert rows["preempt"]["replayed"].startswith(f"{preempted['node']}: evicts default/pod-")
    assert rows["score"]["recorded"].startswith("best: ")


def test_pods_that_are_evicted_together_are_so_again(recording: Path, tmp_path: Path) -> None:
    lines = [json.loads(line) for line in recording.read_bytes().splitlines()]
    for each in lines:
        if each["record"] == "preempt" and len(each.get("candidates", ())) > 1:
            each["groups"] = [{"uids": each["candidates"], "pods": len(each["candidates"])}]
    (tmp_path / "file").write_bytes(b"".join(json.dumps(each).encode() + b"\n" for each in lines))

    result = command("replay", tmp_path / "file", "-o", "json")

    rows = json.loads(result.stdout)["items"]
    assert {row["decision"] for row in rows} == {"preempt"}
    assert all(len(row["replayed"]) > len(row["recorded"]) for row in rows)


def test_the_recording_may_be_an_option_as_in_other_commands(recording: Path) -> None:
    one = command("replay", str(recording), "-n", "nosuch", "--device-policy", "spread")
    other = command("replay", "-f", recording, "-n", "nosuch", "--device-policy", "spread")

    assert (one.exit_code, one.stdout) == (other.exit_code, other.stdout)
    assert one.exit_code == 0
    assert one.stdout.endswith("decisions replayed, 0 differ\n")
    assert command("replay").exit_code == 2
    assert command("replay", recording, "-f", recording).exit_code == 2


def test_an_unfinished_last_line_is_left_out(recording: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(recording.read_bytes()[:-5])

    result = command("replay", tmp_path / "file")

    assert result.exit_code == 0
    assert "the line is not complete and is left out" in result.stderr


MISTAKES = {
    "missing": (None, "FILE: cannot be read: No such file or directory"),
    "text": (b"hello\n", "FILE:1: is no line of a recording, which decisions.record makes"),
    "a part": (b'{"record":"nodes","names":[]}\n', "FILE:1: is not the first line of a recording"),
    "newer": (
        b'{"record":"began","format":4,"version":"9","time":""}\n',
        "FILE:1: has format 4, made by Dragoman 9; this program reads the formats 1, 2 and 3",
    ),
    "without its pod": (
        b'{"record":"began","format":1,"version":"9","time":""}\n'
        b'{"record":"filter","pod":"u","time":""}\n',
        "FILE: no line before it has the pod u",
    ),
    "without its nodes": (
        b'{"record":"began","format":3,"version":"9","time":""}\n'
        b'{"record":"pod","key":"u","pod":{}}\n'
        b'{"record":"gang","pod":"u","time":"","pods":[{"pod":"u","nodes":1}]}\n',
        "FILE: the pod u has no list of nodes 1",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_file_that_is_no_recording(
    mistake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    content, answer = MISTAKES[mistake]
    if content is not None:
        Path("FILE").write_bytes(content)

    result = command("replay", "FILE")

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"dragoman: {answer}")
    assert result.stderr.count("\n") == 1


def test_the_plan_of_a_gang_and_its_commits_are_replayed(tmp_path: Path) -> None:
    file, names = tmp_path / "decisions.jsonl", ("n1", "n2")
    environment = os.environ | {
        "DRAGOMAN_GRPC": "off",
        "DRAGOMAN_DECISIONS_RECORD": str(file),
        "DRAGOMAN_POLICY_NODE": "binpack",
    }
    quota = {
        "apiVersion": "dragoman.dev/v1alpha1",
        "kind": "ShareQuota",
        "metadata": {"name": "quota", "namespace": "default"},
        "spec": {"limits": {"memory": "3000Mi"}},
    }
    pods = [member(name, limits=volcano(1000)) for name in "abcd"]
    things = [*map(node, names), group(KUBERNETES, 3), quota, *pods]
    inventory = write(tmp_path, "things.yaml", stream(*things))
    with (
        serving(tmp_path, "--store", "memory", env=environment, inventory=inventory) as running,
        closing(SchedulerClient(running.address)) as client,
    ):
        waiting = msgspec.convert(client.call("GET", "/local/pods"), list[Pod])
        kube_scheduler(client, waiting[0], names)
        assert running.stop() == 0
    lines = [json.loads(line) for line in file.read_bytes().splitlines()]
    (plan,) = [line for line in lines if line["record"] == "gang"]

    same = command("replay", file)
    spread = command("replay", file, "--node-policy", "spread", "-o", "json")

    assert len([each for each in plan["pods"] if each.get("node")]) == 3
    assert [each.get("over") for each in plan["pods"]].count(True) == 1
    assert {line["pod"] for line in lines if line["record"] == "commit"} == {
        each["pod"] for each in plan["pods"] if each.get("node")
    }
    assert same.exit_code == 0, same.output
    assert same.stdout.endswith(" decisions replayed, 0 differ\n")
    (row,) = [each for each in json.loads(spread.stdout)["items"] if each["decision"] == "gang"]
    assert {each.partition(": ")[2] for each in row["recorded"].split("; ")} == {"n1"}
    assert {each.partition(": ")[2] for each in row["replayed"].split("; ")} == {"n1", "n2"}


def test_a_gang_that_did_not_fit_is_replayed(tmp_path: Path) -> None:
    file = tmp_path / "decisions.jsonl"
    environment = os.environ | {"DRAGOMAN_GRPC": "off", "DRAGOMAN_DECISIONS_RECORD": str(file)}
    pods = [member(name, limits=volcano(90_000)) for name in "ab"]
    things = [node("n1"), group(KUBERNETES, 2), *pods]
    inventory = write(tmp_path, "things.yaml", stream(*things))
    with (
        serving(tmp_path, "--store", "memory", env=environment, inventory=inventory) as running,
        closing(SchedulerClient(running.address)) as client,
    ):
        waiting = msgspec.convert(client.call("GET", "/local/pods"), list[Pod])
        with pytest.raises(RejectionError, match="0 of 2 fit together"):
            kube_scheduler(client, waiting[0], ["n1"])
        assert running.stop() == 0

    result = command("replay", file)

    assert result.stdout.endswith("\n1 decisions replayed, 0 differ\n")
