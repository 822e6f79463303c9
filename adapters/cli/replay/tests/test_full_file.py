"""The recorder's files: their size, and errors."""

import shutil
from pathlib import Path

from adapters.accounting.pod_requests import PodRequest, read
from adapters.cli.tests.command import command
from adapters.dialects.dialect import Defaults, SchedulingPolicy
from adapters.service.decide.advice.recorded import NodePredicted
from adapters.service.decide.state.quotas import Quotas
from adapters.service.observe.recording import FileRecorder
from adapters.service.observe.recording_file import OLDER, RecordingFile
from adapters.service.tests.builders import DIALECTS, a_ledger_cache, a_pod, read_pod


def a_pod_request() -> PodRequest:
    found = read(read_pod(a_pod()), DIALECTS)
    assert found is not None
    return found


def a_recorder(path: Path, errors: list[OSError]) -> FileRecorder:
    """With files of one decision each."""
    made = FileRecorder(RecordingFile(path, 1, errors.append))
    ledgers = a_ledger_cache()
    made.follow(ledgers, Quotas(ledgers))
    made.configured(Defaults(card_policy=SchedulingPolicy.SPREAD), {})
    return made


def test_a_full_file_is_kept_and_each_file_can_be_replayed_alone(tmp_path: Path) -> None:
    errors: list[OSError] = []
    recorder = a_recorder(tmp_path / "file", errors)
    pod = a_pod_request()

    for _ in range(3):
        recorder.record(NodePredicted(pod, "n", ""))
    recorder.close()

    files = sorted(each.name for each in tmp_path.iterdir())
    assert (files, errors) == (["file", f"file{OLDER}"], [])
    for name in files:
        assert '"card":"spread"' in (tmp_path / name).read_text()
        assert "1 decisions replayed" in command("replay", tmp_path / name).stdout


def test_a_file_that_cannot_be_written_ends_the_recording_once(tmp_path: Path) -> None:
    errors: list[OSError] = []
    (tmp_path / "folder").mkdir()
    recorder = a_recorder(tmp_path / "folder" / "file", errors)
    shutil.rmtree(tmp_path / "folder")

    for _ in range(3):
        recorder.record(NodePredicted(a_pod_request(), "n", ""))

    assert len(errors) == 1


def test_a_service_that_cannot_record_does_not_start(tmp_path: Path) -> None:
    config = tmp_path / "sidecar.yaml"
    config.write_text(f"decisions: {{record: {tmp_path}/none/file}}\ngrpc: off\n")

    result = command("serve", "--config", config, "--store", "memory", "--listen", "127.0.0.1:0")

    assert result.exit_code == 2
    assert f"decisions.record: {tmp_path}/none/file: cannot be written: No such" in result.stderr
