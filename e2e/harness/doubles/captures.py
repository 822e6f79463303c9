"""Bodies that foreign components really send, kept in the repository.

A capture is one sample, pretty-printed. With ``--rewrite-golden`` a run writes what it saw; without
it compares: the fields of today's body must be those of the file. Values, and what belongs to
Kubernetes' own objects, may differ from run to run.
"""

import json
from pathlib import Path
from typing import Any

CAPTURES = Path(__file__).parents[2] / "captures"


def compare(name: str, body: object, *, rewrite: bool) -> None:
    """Check a body against its capture, or write it.

    Args:
        name: path below ``e2e/captures`` without suffix.
        body: as it came, decoded.
        rewrite: write instead of comparing.

    Raises:
        AssertionError: fields have come or gone.
    """
    path = CAPTURES / f"{name}.json"
    trimmed = trim(body)
    if rewrite:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(trimmed, indent=1, ensure_ascii=False) + "\n")
    kept = shape(json.loads(path.read_text()))
    now = shape(trimmed)
    if now != kept:
        raise AssertionError(f"{name}: new {sorted(now - kept)}, gone {sorted(kept - now)}")


def trim(value: Any) -> Any:
    """Return the value without ``managedFields``, the bookkeeping of the API server."""
    if isinstance(value, dict):
        return {key: trim(each) for key, each in value.items() if key != "managedFields"}
    if isinstance(value, list):
        return [trim(each) for each in value]
    return value


def shape(value: object, path: str = "", depth: int = 4) -> set[str]:
    """Paths of the fields down to a depth, and which of them are null.

    Kubernetes' objects, which have ``metadata``, count as one field; so does the content of a map
    whose keys are data and not field names, which holds a dot, a slash or a dash.
    """
    if isinstance(value, dict) and depth and "metadata" not in value:
        if any(set(key) & set("./-") for key in value):
            return {f"{path}.*"}
        inner = [shape(each, f"{path}.{key}", depth - 1) for key, each in value.items()]
        return {path}.union(*inner)
    if isinstance(value, list):
        inner = [shape(each, f"{path}[]", depth - 1) for each in value[:1]]
        return {path}.union(*inner)
    return {f"{path}=null" if value is None else path}
