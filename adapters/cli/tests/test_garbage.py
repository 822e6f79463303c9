"""Any input gives a report or an ``InputError``, and no other exception."""

import contextlib
import json
from pathlib import Path

import yaml
from hypothesis import given
from hypothesis import strategies as st

from adapters.cli.input.manifests import manifests
from adapters.cli.input.source import InputError, Source
from adapters.cli.output.streamed_report import json_report, yaml_report
from adapters.cli.schedule import Run, RunOptions
from adapters.dialects.dialect import Defaults

FOLDER = Path(__file__).parents[3] / "configs" / "examples"
YAML = [path.read_text() for path in sorted(FOLDER.glob("*.yaml"))]
JSON = [json.dumps({"kind": "List", "items": list(yaml.safe_load_all(text))}) for text in YAML]
PIECES = [
    *"\"':{}[],\n\t -09~\\&*%!\0é",
    "-1",
    "9" * 20,
    "1e9",
    "true",
    "null",
    "!!int",
    "Gi",
    "\\ud800",
]

edits = st.lists(
    st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 20), st.sampled_from(PIECES)),
    min_size=1,
    max_size=4,
)


@given(st.sampled_from([*YAML, *JSON]), edits)
def test_a_damaged_example_gives_a_report_or_an_input_error(
    text: str, edits: list[tuple[float, int, str]]
) -> None:
    for place, removed, piece in edits:
        start = int(place * len(text))
        text = text[:start] + piece + text[start + removed :]

    with contextlib.suppress(InputError):
        run = Run.of(manifests([Source("text", text, named=True)]), RunOptions(Defaults(), now=0))
        pods = [*run.place_all()]
        in_yaml = b"".join(yaml_report(pods, run.cards()))
        in_json = b"".join(json_report(pods, run.cards()))
        assert yaml.safe_load(in_yaml) == json.loads(in_json)


@given(st.text())
def test_any_text_gives_a_report_or_an_input_error(text: str) -> None:
    with contextlib.suppress(InputError):
        run = Run.of(manifests([Source("text", text, named=True)]), RunOptions(Defaults(), now=0))
        _ = [*run.place_all()], [*run.cards()], [*run.warnings]
