"""Replay of the arbiter's decisions about ResourceClaims."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from adapters.accounting.claim_cache import ClaimCache
from adapters.accounting.pod_requests import PodRequest
from adapters.cli.tests.command import command
from adapters.dialects.dra.tests.builders import a_card_device, a_result, a_share, a_slice
from adapters.service.decide.commit.card_choice import Committed
from adapters.service.endpoints.claim_admission import ClaimAdmission
from adapters.service.observe.recording import FileRecorder
from adapters.service.observe.recording_file import RecordingFile
from adapters.service.tests.builders import Bench, Json, a_node, a_pod, a_service, read_pod, run
from adapters.service.tests.claims import (
    CLASS,
    AskedClaims,
    a_claim,
    a_claim_of_one_card,
    claim_review,
)

EXAMPLE = Path(__file__).parents[4] / "docs" / "reference" / "cli" / "decisions.jsonl"


def a_pod_request(bench: Bench, name: str, memory: int) -> PodRequest:
    found = bench.service.pod_requests.read(read_pod(a_pod(name, memory=memory, count=2)))
    assert found is not None
    return found


def record(file: Path, claims: Sequence[Json], most: int = 1 << 20) -> None:
    """Decide about claims, beside a pod that has 2000 MiB of each of two cards."""
    recorder = FileRecorder(RecordingFile(file, most, lambda _: None))
    bench = run(a_service(a_node("n1"), recorder=recorder))
    catalog = ClaimCache(lambda _: None)
    cards = a_slice(*(a_card_device(f"gpu-{i}", f"GPU-n1-{i}", "8Gi") for i in range(2)))
    catalog.put_slice(cards.__replace__(spec=cards.spec.__replace__(node_name="n1")))
    catalog.put_class(CLASS)
    endpoint = ClaimAdmission(bench.service, catalog, AskedClaims())
    committed, _ = run(bench.service.commit(a_pod_request(bench, "p", 2000), "n1"))
    assert isinstance(committed, Committed)
    for claim in claims:
        run(endpoint.statuses(claim_review(claim)))
    recorder.close()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "decisions.jsonl"
    claims = (
        a_claim(a_share("gpu-0", memory="1Gi")),
        a_claim(a_share("gpu-0", memory="7Gi"), uid="u2"),
        a_claim_of_one_card(a_share("gpu-0", memory="6Gi"), uid="u3"),
    )
    record(found, claims)
    return found


def of_claims(file: Path) -> list[Json]:
    lines = map(json.loads, file.read_bytes().splitlines())
    return [line for line in lines if line["record"] == "claim"]


def test_each_decision_about_a_claim_replays_to_the_same_answer(file: Path) -> None:
    result = command("replay", file)

    answers = [(each["asked"]["uid"], each.get("reason", "")) for each in of_claims(file)]
    assert answers == [
        ("u1", ""),
        ("u2", "card GPU-n1-0 cannot take team/c: memory"),
        ("u3", "card GPU-n1-0 cannot take team/c: memory"),
        ("u3", ""),
    ]
    assert result.exit_code == 0, result.output
    assert result.stdout.endswith(" decisions replayed, 0 differ\n")


def test_an_answer_that_the_arbiter_would_not_give_is_found(file: Path, tmp_path: Path) -> None:
    lines = [json.loads(line) for line in file.read_bytes().splitlines()]
    refused = next(line for line in lines if line["record"] == "claim" and "reason" in line)
    del refused["reason"]
    (tmp_path / "file").write_bytes(b"".join(json.dumps(each).encode() + b"\n" for each in lines))

    result = command("replay", tmp_path / "file", "--no-headers")
    names = command("replay", tmp_path / "file", "-o", "name")

    assert result.exit_code == 1
    (line,) = result.stdout.splitlines()
    assert "cannot take team/c: memory" in line
    assert names.stdout == "resourceclaim/c\n"


def test_full_files_of_claims_replay_alone(tmp_path: Path) -> None:
    file = tmp_path / "file"
    record(file, [a_claim(a_result("gpu-1"), uid=f"u{number}") for number in range(3)], most=1)

    for each in (file, tmp_path / "file.1"):
        assert len(of_claims(each)) == 1
        assert "1 decisions replayed, 0 differ" in command("replay", each).stdout


def test_a_recording_of_format_1_replays() -> None:
    assert b'"format":1' in EXAMPLE.read_bytes().splitlines()[0]
    assert command("replay", EXAMPLE).exit_code == 0
