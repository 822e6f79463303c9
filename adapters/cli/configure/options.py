"""What the user asks ``dragoman configure`` for."""

import base64
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from adapters.cli.configure.mode import Asked, SchedulerMode
from adapters.cli.input.source import InputError

PORT = 9595


@dataclass(frozen=True, slots=True)
class ConfigureOptions:
    """Everything that None leaves as the file has it, or as is usual.

    Attributes:
        url: the service's, without a path; None for what the file has.
        namespace: the service's, for the address where the file has none.
        ca_file: path on the scheduler's machine of the authorities that sign the service's
            certificate.
        ca_data: the same authorities, PEM, written into the configuration.
        kubeconfig: path on the scheduler's machine.
        scheduler_name: the name of the only profile.
        preemption: whether the scheduler counts resources itself, and so asks for victims.
        mode: of a scheduler that has a device plugin of its own.
        keep_deviceshare: the same of koord-scheduler by an older name: true for native mode.
        plain_pods: whether vc-scheduler asks about pods with only a device plugin's resources.
        ask: about which pods a scheduler in native mode asks.
    """

    url: str | None = None
    namespace: str = "dragoman-system"
    ca_file: str | None = None
    ca_data: bytes | None = None
    kubeconfig: str | None = None
    scheduler_name: str | None = None
    preemption: bool | None = None
    mode: SchedulerMode | None = None
    keep_deviceshare: bool | None = None
    plain_pods: bool | None = None
    ask: Asked | None = None

    @property
    def has_ca(self) -> bool:
        """Whether an authority is named."""
        return self.ca_file is not None or self.ca_data is not None


def service_url(options: ConfigureOptions, path: str, present: object) -> str:
    """The address to write: as asked for, as it is, or the Service's in its namespace.

    Args:
        options: what the user asked for.
        path: the path that this kind of scheduler calls.
        present: what the file has; None for nothing.

    Raises:
        InputError: the address that the user gave is none.
    """
    if options.url is None:
        if isinstance(present, str) and present:
            return present
        return f"http://dragoman.{options.namespace}.svc:{PORT}{path}"
    try:
        parts = urlsplit(options.url)
        valid = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        valid = False
    if not valid or parts.query or parts.fragment or parts.path.rstrip("/") not in {"", path}:
        raise InputError(
            "--url",
            f"{options.url!r} is no address of the service; give http://HOST:PORT or"
            f" https://HOST:PORT, such as http://10.96.7.7:{PORT}",
        )
    return f"{parts.scheme}://{parts.netloc}{path}"


def read_authorities(file: Path) -> bytes:
    """The certificates of a PEM file.

    Raises:
        InputError: it cannot be read, or has no certificate.
    """
    try:
        content = file.read_bytes()
    except OSError as error:
        raise InputError("--ca-data", f"{file} cannot be read: {error.strerror}") from error
    if not re.search(rb"-----BEGIN CERTIFICATE-----", content):
        raise InputError("--ca-data", f"{file} has no certificate in PEM; give ca.crt")
    return content


def base64_text(content: bytes) -> str:
    """Bytes as a KubeSchedulerConfiguration has them."""
    return base64.b64encode(content).decode()
