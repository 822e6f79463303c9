"""The kubelet's device assignments, read again whenever its checkpoint file has changed."""

from dataclasses import dataclass, field
from pathlib import Path

from adapters.agent.hook.facts import GivenDevices
from adapters.agent.hook.other_injectors import names_card
from adapters.agent.kubelet.checkpoint import MAX_FILE, CheckpointError, DeviceAssignment, read
from adapters.agent.log import log_event
from adapters.wire.records.hardware import is_reported


@dataclass(slots=True)
class KubeletAssignments:
    """The latest valid content of the checkpoint; from any thread.

    Attributes:
        path: of the file.
    """

    path: Path
    _known: tuple[DeviceAssignment, ...] = ()
    _version: tuple[int, ...] = ()
    _problem: str = field(default="")

    def read(self) -> tuple[DeviceAssignment, ...]:
        """All assignments.

        An invalid file leaves the known ones: they are by uid, and a pod keeps its devices.
        """
        problem = ""
        try:
            stat = self.path.stat()
            version = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
            if version != self._version:
                with self.path.open("rb") as file:
                    self._known = read(file.read(MAX_FILE + 1))
                self._version = version
        except (OSError, CheckpointError) as error:
            problem = str(error)
        if problem and problem != self._problem:
            log_event("kubelet_checkpoint.invalid", reason=problem)
        self._problem = problem
        return self._known

    def given(self, pod: str, container: str) -> GivenDevices:
        """What device plugins gave a container.

        The kubelet writes the file before it creates the container.

        Args:
            pod: uid.
            container: its name.
        """
        own = [one for one in self.read() if one.pod == pod and one.container == container]
        return GivenDevices(
            frozenset(word for one in own for word in one.visible if names_card(word)),
            frozenset(
                device
                for one in own
                if is_reported(one.resource) and not any(map(names_card, one.visible))
                for device in one.without_replicas
            ),
        )
