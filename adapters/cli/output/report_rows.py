"""The pods of a report as rows: names, or CSV."""

from adapters.cli.output.report import PodLine
from adapters.cli.output.rows import Row
from core.hardware.quantity import MIB


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
    }
    return Row(f"pod/{pod.name}", (), fields)
