"""Prints what a translation lost, as a table or as JSON."""

from adapters.cli.output.encoded import as_json
from adapters.cli.output.rows import Column, Row, table
from adapters.cli.translate.translation import TranslatedPod, Translation

_COLUMNS = tuple(
    map(Column, ("DOCUMENT", "POD", "FROM", "LOSS", "BEFORE", "AFTER")),
)


def as_table(translation: Translation) -> str:
    """One line for each loss, and a line with the sum."""
    rows = [
        Row("", (pod.document, pod.path, pod.source, loss.field, loss.before, loss.after), {})
        for pod in translation.pods
        for loss in pod.losses
    ]
    lossy = sum(bool(pod.losses) for pod in translation.pods)
    total = len(translation.pods)
    return (
        f"{table(_COLUMNS, rows) if rows else ''}"
        f"{total} {'pod' if total == 1 else 'pods'} translated to {translation.target}, "
        f"{lossy} with a loss\n"
    )


def as_report(translation: Translation) -> str:
    """The losses of each pod, and the translated text."""
    return as_json(
        {
            "apiVersion": "dragoman.dev/v1alpha1",
            "kind": "Translation",
            "target": translation.target,
            "pods": [_plain(pod) for pod in translation.pods],
            "text": translation.text,
        }
    )


def _plain(pod: TranslatedPod) -> dict[str, object]:
    return {
        "document": pod.document,
        "path": pod.path,
        "dialect": pod.source,
        "losses": [
            {"field": loss.field, "before": loss.before, "after": loss.after} for loss in pod.losses
        ],
    }
