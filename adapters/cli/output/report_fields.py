"""The fields of a report in JSON and YAML, which are a contract."""

from adapters.cli.output.report import CardLine, GangLine, PodLine, PodResult, ShareLine
from adapters.cli.output.rows import Row
from core.hardware.quantity import MIB

HEAD = {"apiVersion": "dragoman.dev/v1alpha1", "kind": "ScheduleReport"}


def pod_fields(pod: PodLine, nodes: dict[str, str]) -> dict[str, object]:
    """One pod.

    Args:
        pod: the pod.
        nodes: by name, why it does not fit. They come last.
    """
    return {
        "namespace": pod.namespace,
        "name": pod.name,
        "uid": pod.uid,
        "dialect": pod.dialect,
        "gang": gang_fields(pod.gang),
        "placed": pod.node is not None,
        "phase": "admission" if pod.result is PodResult.INVALID else "schedule",
        "node": pod.node,
        "containers": {
            name: [_share(share) for share in shares] for name, shares in pod.containers.items()
        },
        "annotations": dict(pod.annotations),
        "labels": dict(pod.labels),
        "explanation": {"summary": pod.summary, "nodes": nodes},
    }


def gang_fields(gang: GangLine | None) -> dict[str, object] | None:
    """The gang of a pod; None where it is bound alone."""
    if gang is None:
        return None
    return {"name": gang.name, "api": gang.api, "minimum": gang.minimum}


def card_fields(line: CardLine) -> dict[str, object]:
    """One card."""
    return {
        "node": line.card.node,
        "uuid": line.card.uuid,
        "index": line.card.index,
        "vendor": line.card.vendor,
        "model": line.card.model,
        "memoryMiB": line.card.memory // MIB,
        "usedMemoryMiB": line.memory // MIB,
        "usedCompute": line.compute,
        "sharers": [sharer.pod for sharer in line.sharers],
    }


def _share(share: ShareLine) -> dict[str, object]:
    part = share.slice
    return {
        "uuid": share.uuid,
        "index": share.index,
        "memoryMiB": share.memory // MIB,
        "compute": share.compute,
        "mig": None if part is None else {"profile": part.profile, "start": part.start},
    }


def pod_row(pod: PodLine) -> Row:
    """One pod; its amounts are those of all its shares together."""
    shares = [share for shares in pod.containers.values() for share in shares]
    fields: dict[str, object] = {
        "namespace": pod.namespace,
        "name": pod.name,
        "result": pod.result.value,
        "dialect": pod.dialect,
        "node": pod.node,
        "cards": [share.uuid for share in shares],
        "memoryMiB": sum(share.memory for share in shares) // MIB,
        "compute": sum(share.compute for share in shares),
        "summary": pod.summary,
        "gang": None if pod.gang is None else pod.gang.name,
    }
    return Row(f"pod/{pod.name}", (), fields)
