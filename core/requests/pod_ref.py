"""Which pod: the value that names one in calls, logs and records."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PodRef:
    """A pod, by its name and by its identity.

    ``str()`` gives ``namespace/name``.

    Attributes:
        namespace: as the API server has it, never empty there.
        name: unique in the namespace at one time; a pod that is created again has it too.
        uid: unique for ever; empty where the caller does not know it.
    """

    namespace: str
    name: str
    uid: str = ""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    @classmethod
    def parse(cls, full_name: str, uid: str = "") -> "PodRef":
        """Read ``namespace/name``; text without a slash is a namespace without a name."""
        namespace, _, name = full_name.partition("/")
        return cls(namespace, name, uid)
