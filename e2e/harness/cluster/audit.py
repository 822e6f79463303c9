"""What the API server refused to our own accounts, from its audit log.

Source: k8s.io/apiserver/pkg/apis/audit/v1/types.go.
"""

import json
from pathlib import Path

from e2e.harness.names import NAMESPACE, RELEASE

LOG = "audit.log"

ACCOUNTS = tuple(
    f"system:serviceaccount:{NAMESPACE}:{name}"
    for name in (RELEASE, f"{RELEASE}-node", f"{RELEASE}-mover")
)

POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted"],
    "rules": [{"level": "Metadata", "users": list(ACCOUNTS)}, {"level": "None"}],
}
"""Only the requests of these accounts, without their bodies."""

_read: dict[Path, int] = {}


def refused(folder: Path) -> list[str]:
    """The requests that were forbidden since the last call.

    Args:
        folder: of the run.
    """
    log = folder / LOG
    if not log.exists():
        return []
    with log.open("rb") as file:
        begin = _read.get(log, 0)
        file.seek(begin)
        lines = file.read()
        whole = lines[: lines.rfind(b"\n") + 1]
        _read[log] = begin + len(whole)
    return [
        f"{event['user']['username']}: {event['verb']} {event['requestURI']}"
        for event in map(json.loads, whole.splitlines())
        if event.get("annotations", {}).get("authorization.k8s.io/decision") == "forbid"
    ]
