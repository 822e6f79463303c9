"""A handler that records its calls."""

from dataclasses import dataclass, field

from adapters.cluster.watch.object_tracker import Identity
from adapters.wire.kube import Pod, Unreadable


@dataclass
class RecordingHandler:
    """Pods by name as last reported, and all calls in order."""

    pods: dict[str, Pod] = field(default_factory=dict)
    bad: dict[str, str] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)
    syncs: int = 0

    def on_update(self, thing: Pod) -> None:
        name = thing.metadata.name
        self.pods[name] = thing
        self.bad.pop(name, None)
        self.log.append(f"{name}@{thing.metadata.resource_version}")

    def on_delete(self, what: Identity) -> None:
        self.pods.pop(what.name, None)
        self.bad.pop(what.name, None)
        self.log.append(f"-{what.name}/{what.uid}")

    def on_unreadable(self, what: Unreadable, problem: str) -> None:
        self.pods.pop(what.name, None)
        self.bad[what.name] = problem
        self.log.append(f"?{what.name}")

    def on_synced(self) -> None:
        self.syncs += 1
        self.log.append("synced")
