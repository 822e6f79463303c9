"""The claims that are prepared: one CDI file each, which outlives the driver."""

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from adapters.agent.injection.cache_dirs import put_aside
from adapters.agent.injection.prepared import (
    CDI,
    CDI_KIND,
    CDI_VERSION,
    SCRATCH,
    CdiDevice,
    CdiSpec,
    cdi_file,
)
from adapters.agent.log import log_event
from adapters.wire.decode.decoder import Decoder, UnreadableError

_ANSWER = "dragoman.dev/devices"
"""Annotation of a file: what the kubelet was answered, as JSON."""


class PreparedDevice(msgspec.Struct, frozen=True):
    """A device of a claim, as the kubelet is answered.

    Attributes:
        request: of the claim.
        pool: of the device.
        device: its name.
        share: its share ID; None for a whole device.
        cdi: names of what the runtime gives to the container that uses the request.
    """

    request: str
    pool: str
    device: str
    share: str | None = None
    cdi: tuple[str, ...] = ()


_DEVICES = Decoder(tuple[PreparedDevice, ...])


@dataclass(frozen=True, slots=True)
class PreparedClaims:
    """The files of one folder.

    Attributes:
        folder: in which the runtime looks for them.
    """

    folder: Path

    def read(self, claim: str) -> tuple[PreparedDevice, ...] | None:
        """The devices of a claim that is prepared; None for another one.

        A file that cannot be read is replaced by the next preparation.

        Raises:
            GrantError: the uid is not usable in a file's name.
        """
        path = cdi_file(self.folder, claim)
        try:
            spec = CDI.decode(path.read_bytes())
            text = spec.annotations[_ANSWER]
            return _DEVICES.decode(text)
        except FileNotFoundError:
            return None
        except (OSError, UnreadableError, KeyError) as error:
            log_event("claim.file_invalid", uid=claim, reason=repr(error))
            return None

    def write(
        self, claim: str, answer: tuple[PreparedDevice, ...], devices: tuple[CdiDevice, ...]
    ) -> None:
        """Write a claim's file, as a whole.

        Raises:
            OSError: it cannot be written.
            GrantError: the uid is not usable in a file's name.
        """
        annotations = {_ANSWER: msgspec.json.encode(answer).decode()}
        path = cdi_file(self.folder, claim)
        self.folder.mkdir(parents=True, exist_ok=True)
        part = _part(path)
        try:
            with part.open("wb") as file:
                file.write(
                    msgspec.json.encode(CdiSpec(CDI_VERSION, CDI_KIND, annotations, devices))
                )
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
        except OSError:
            part.unlink(missing_ok=True)
            raise

    def remove(self, claim: str) -> None:
        """Remove a claim's file and the cache folders of its containers, if they exist.

        Raises:
            OSError: the file cannot be removed.
            GrantError: the uid is not usable in a file's name.
        """
        path = cdi_file(self.folder, claim)
        with suppress(OSError, UnreadableError):
            spec = CDI.decode(path.read_bytes())
            for device in spec.devices:
                if SCRATCH in device.annotations:
                    with suppress(OSError):
                        put_aside(device.annotations[SCRATCH])
        for each in (_part(path), path):
            each.unlink(missing_ok=True)


def _part(path: Path) -> Path:
    """A claim's file before it is whole; a driver that was killed may have left it."""
    return path.with_suffix(".part")
