"""Any text gives a manifest or an ``InputError``, and no other exception."""

import contextlib
import json
from pathlib import Path

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.cli.input.source import InputError, Source
from adapters.cli.translate.translation import targets, translate
from adapters.dialects.request_writer import CardFacts

EXAMPLE = (Path(__file__).parents[4] / "docs" / "reference" / "cli" / "translate.yaml").read_text()
TEXTS = [EXAMPLE, json.dumps(yaml.safe_load(EXAMPLE), indent=2)]
PIECES = [
    *"\"':{}[],\n\t -09~\\&*%!\0é",
    "null",
    "!!int",
    "Gi",
    "\\ud800",
    "<<: *a",
    "&a ",
    "---\n",
]

edits = st.lists(
    st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 20), st.sampled_from(PIECES)),
    min_size=1,
    max_size=4,
)


@settings(max_examples=100, derandomize=True)
@given(st.sampled_from(TEXTS), edits, st.sampled_from(targets()))
def test_a_damaged_manifest_gives_a_manifest_or_an_input_error(
    text: str, edits: list[tuple[float, int, str]], target: str
) -> None:
    for place, removed, piece in edits:
        start = int(place * len(text))
        text = text[:start] + piece + text[start + removed :]

    with contextlib.suppress(InputError):
        found = translate(Source("text", text, named=True), target, CardFacts())
        assert found.pods or found.text == text
