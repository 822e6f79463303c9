"""What a container gets by its claims, as the driver prepared it in a file of CDI.

The driver writes the file before the kubelet creates the first container, and the runtime applies
it. The agent reads it for a container whose environment names it, so that it adds what the runtime
left out and takes nothing away. Format: Container Device Interface 0.6.0, SPEC.md.
"""

import re
from pathlib import Path

import msgspec

from adapters.agent.injection.plan import AdjustmentPlan
from adapters.agent.nri.model import Adjustment, Mount
from adapters.wire.decode.decoder import Decoder, UnreadableError
from core.requests.limits import GrantError

CDI_VERSION, CDI_KIND = "0.6.0", "dragoman.dev/share"

CLAIM_MARK = "DRAGOMAN_CLAIM"
"""Variable with the uid of the claim whose file has the container's share."""

POD_UID, CONTAINER = "dragoman.dev/pod-uid", "dragoman.dev/container"
"""Annotations of a device: the only container that may have it."""

SCRATCH = "dragoman.dev/cache-folder"
"""Annotation of a device: the container's own folder; absent without HAMi-core."""

_UID = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,62}")
_FILE = re.compile(rf"dragoman\.dev-share_({_UID.pattern})\.json")


class _CdiStruct(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The base of the format's parts; unknown fields are ignored."""


class CdiDeviceNode(_CdiStruct, frozen=True):
    """A device node; ``file_mode`` has its permission bits."""

    path: str
    type: str = ""
    major: int = 0
    minor: int = 0
    file_mode: int | None = None


class CdiMount(_CdiStruct, frozen=True):
    """A bind mount."""

    host_path: str
    container_path: str
    options: tuple[str, ...] = ()
    type: str = ""


class CdiEdits(_CdiStruct, frozen=True):
    """What a container gets; ``env`` has ``NAME=VALUE`` each."""

    env: tuple[str, ...] = ()
    device_nodes: tuple[CdiDeviceNode, ...] = ()
    mounts: tuple[CdiMount, ...] = ()


class CdiDevice(_CdiStruct, frozen=True):
    """The share of one container."""

    name: str
    annotations: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    container_edits: CdiEdits = CdiEdits()


class CdiSpec(_CdiStruct, frozen=True):
    """A file: the shares of the containers of one claim."""

    cdi_version: str
    kind: str
    annotations: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    devices: tuple[CdiDevice, ...] = ()


CDI = Decoder(CdiSpec)
"""Decodes the CDI file of a claim."""


def cdi_file(folder: Path, claim: str) -> Path:
    """The file of a claim.

    Raises:
        GrantError: the uid is not usable in a file's name.
    """
    if not _UID.fullmatch(claim):
        raise GrantError(f"{claim!r} is not the uid of a claim")
    return folder / f"dragoman.dev-share_{claim}.json"


def prepared_claims(folder: Path) -> frozenset[str]:
    """Uids of the claims that have a file.

    Raises:
        OSError: the folder cannot be read.
    """
    names = (path.name for path in folder.iterdir())
    return frozenset(found[1] for name in names if (found := _FILE.fullmatch(name)))


def edits_of(adjustment: Adjustment, claim: str) -> CdiEdits:
    """An adjustment as the runtime applies it, with the claim's mark."""
    variables = {**adjustment.env, CLAIM_MARK: claim}
    return CdiEdits(
        tuple(f"{name}={value}" for name, value in variables.items()),
        tuple(
            CdiDeviceNode(each.path, each.type, each.major, each.minor, each.mode)
            for each in adjustment.devices
        ),
        tuple(
            CdiMount(each.source, each.destination, each.options, each.type)
            for each in adjustment.mounts
        ),
    )


def prepared_plan(folder: Path, claim: str, pod: str, container: str) -> AdjustmentPlan:
    """What a container must have by its claims.

    The mark is text of the container, which its author may have written. So the file must name
    this container of this pod.

    Args:
        folder: with the files of CDI.
        claim: uid in the container's mark.
        pod: uid of its pod.
        container: its name.

    Raises:
        GrantError: nothing is prepared for this container.
    """
    path = cdi_file(folder, claim)
    try:
        spec = CDI.decode(path.read_bytes())
    except (OSError, UnreadableError) as error:
        raise GrantError(f"{CLAIM_MARK}: no share of claim {claim} is prepared: {error}") from error
    for device in spec.devices:
        owner = device.annotations.get(POD_UID), device.annotations.get(CONTAINER)
        if owner == (pod, container):
            return _plan(device)
    raise GrantError(f"{CLAIM_MARK}: claim {claim} is prepared for another container")


def _plan(device: CdiDevice) -> AdjustmentPlan:
    edits = device.container_edits
    pairs = (line.partition("=") for line in edits.env)
    return AdjustmentPlan(
        {name: value for name, _, value in pairs},
        tuple(
            Mount(each.container_path, each.type, each.host_path, each.options)
            for each in edits.mounts
        ),
        tuple(each.path for each in edits.device_nodes),
        scratch_dir=device.annotations.get(SCRATCH),
    )
