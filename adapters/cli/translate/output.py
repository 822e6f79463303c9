"""Prints what a translation lost, as a table or as JSON."""

from collections.abc import Iterator

from adapters.cli.output.rows import Column, Row, as_json, table
from adapters.cli.translate.translation import TranslatedPod, Translation
from adapters.wire.visible import visible

_COLUMNS = tuple(
    map(Column, ("DOCUMENT", "POD", "FROM", "LOSS", "BEFORE", "AFTER")),
)


def as_table(translation: Translation) -> str:
    """One line for each loss, a line with the sum, and one for each foreign scheduler."""
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
        f"{''.join(_schedulers(translation))}"
    )


def _schedulers(translation: Translation) -> Iterator[str]:
    for pod in translation.pods:
        if pod.foreign_scheduler is not None:
            name = " ".join(filter(None, (pod.document, pod.path)))
            yield (
                visible(
                    f"note: {name}: schedulerName stays {pod.foreign_scheduler}; no scheduler of"
                    f" {translation.target} has this name, so it must be one that asks Dragoman"
                )
                + "\n"
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
        "foreignScheduler": pod.foreign_scheduler,
        "losses": [
            {"field": loss.field, "before": loss.before, "after": loss.after} for loss in pod.losses
        ],
    }
