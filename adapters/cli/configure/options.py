"""What the user asks ``dragoman configure`` for, and the resources that a scheduler asks about."""

import re
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from urllib.parse import urlsplit

from adapters.cli.input.source import InputError

PORT = 9595


class Scheduler(Enum):
    """A scheduler, by the name of its program."""

    KUBE = "kube-scheduler"
    KOORD = "koord-scheduler"
    VOLCANO = "vc-scheduler"


class SchedulerMode(Enum):
    """How a scheduler that has a device plugin of its own works with Dragoman.

    In either mode the webhook for Bindings commits the cards.
    """

    NATIVE = "native"
    """The own plugin chooses the cards of its own dialect; Dragoman serves the other dialects."""

    EXTENDER = "extender"
    """Dragoman chooses the cards of all dialects; the scheduler's own plugin is out."""


class Asked(Enum):
    """About pods of which dialects a scheduler in native mode asks Dragoman."""

    ALL = "all"
    """Pods of its own dialect too: where no mirrored records show its plugin what others hold."""

    OTHERS = "others"
    """Pods of all dialects but its own."""

    NONE = "none"
    """No pods: it places those of its own dialect alone."""


@dataclass(frozen=True, slots=True)
class ManagedResource:
    """One of them.

    Attributes:
        name: of the extended resource.
        countable: whether a scheduler may sum it up over a node: the node states it, and a pod
            that fits the sum may fit a card. It is false for bounds of one card and for names
            that no component publishes by default.
        plain: whether a pod may name it alone and so request whole cards of a vendor's device
            plugin. Pods with it are scheduled without Dragoman while no replica answers.
    """

    name: str
    countable: bool = True
    plain: bool = False


RESOURCES = (
    ManagedResource("volcano.sh/vgpu-number"),
    ManagedResource("volcano.sh/vgpu-memory"),
    ManagedResource("volcano.sh/vgpu-memory-percentage", countable=False),
    ManagedResource("volcano.sh/vgpu-cores"),
    ManagedResource("koordinator.sh/gpu"),
    ManagedResource("koordinator.sh/gpu.shared", countable=False),
    ManagedResource("koordinator.sh/gpu-core"),
    ManagedResource("koordinator.sh/gpu-memory"),
    ManagedResource("koordinator.sh/gpu-memory-ratio"),
    ManagedResource("nvidia.com/gpu", plain=True),
    ManagedResource("nvidia.com/gpumem", countable=False),
    ManagedResource("nvidia.com/gpumem-percentage", countable=False),
    ManagedResource("nvidia.com/gpucores", countable=False),
    ManagedResource("nvidia.com/priority", countable=False),
    ManagedResource("metax-tech.com/gpu", plain=True),
    ManagedResource("metax-tech.com/sgpu"),
    ManagedResource("metax-tech.com/vcore", countable=False),
    ManagedResource("metax-tech.com/vmemory", countable=False),
)
SHARES = tuple(each for each in RESOURCES if not each.plain)
PLAIN = tuple(each for each in RESOURCES if each.plain)
NAMES = tuple(each.name for each in RESOURCES)


@dataclass(frozen=True, slots=True)
class ConfigureOptions:
    """The options of the command; None leaves what the file has, or what is usual.

    Attributes:
        url: the service's, without a path.
        ca_file: path on the scheduler's machine of the authorities that sign the service's
            certificate; ``ca_data`` are the same, PEM, written into the configuration.
        preemption: whether the scheduler counts resources itself, and so asks for victims.
        keep_deviceshare: koord-scheduler's mode by an older name: true for native.
        version: major and minor of kube-scheduler: from 1.38 on it asks for victims also where it
            has found none.
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
    version: tuple[int, int] | None = None

    @property
    def has_ca(self) -> bool:
        """Whether an authority is named."""
        return self.ca_file is not None or self.ca_data is not None


def service_url(options: ConfigureOptions, path: str, present: object) -> str:
    """Return the address to write: as asked for, as present, or the Service's in its namespace.

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
    """Return the certificates of a PEM file.

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


def read_version(text: str) -> tuple[int, int]:
    """Read the version of kube-scheduler, such as ``1.38`` or ``v1.38.2``.

    Raises:
        InputError: it is none.
    """
    found = re.fullmatch(r"v?(\d{1,3})\.(\d{1,3})(?:\.\S*)?", text)
    if found is None:
        raise InputError("--kubernetes-version", f"{text!r} is no version; give one such as 1.37")
    return int(found[1]), int(found[2])
