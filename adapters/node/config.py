"""The node's configuration file, and the values that it becomes."""

import os
from pathlib import Path
from types import MappingProxyType
from typing import Annotated

import msgspec
import yaml

from adapters.dialects import registry
from adapters.node.hook.profiles import METAX, NVIDIA, HamiCore, Preload, VendorProfile
from adapters.node.kubelet.checkpoint import PLACE
from adapters.node.nri.model import Mount


class ConfigError(ValueError):
    """A configuration that cannot be meant."""


class _Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The base of all sections; a word that is not known is an error."""


class PluginConfig(_Section, frozen=True):
    """How the runtime shall call the agent; plugins are asked by ascending index."""

    name: str = "dragoman"
    index: str = "50"


class LedgerSource(_Section, frozen=True):
    """Where the node's record comes from: a file, or else the cluster.

    Attributes:
        file: of the record; empty for the cluster.
        kubeconfig: by which the cluster is reached; empty for the service account of the pod.
    """

    file: str = ""
    kubeconfig: str = ""


class InventorySource(_Section, frozen=True):
    """Where the node's cards come from: ``nvml``, or a file.

    Attributes:
        ignore_xids: errors that say nothing about a card, besides those of applications.
    """

    source: str = "nvml"
    file: str = ""
    ignore_xids: tuple[int, ...] = ()


class PublishConfig(_Section, frozen=True):
    """What is told of the node's cards in its record; see ``publish.Terms``.

    Attributes:
        checkpoint: the kubelet's file of who was given what; empty where it is not read.
    """

    cards: bool = True
    dialects: tuple[str, ...] = ()
    slots: Annotated[int, msgspec.Meta(ge=1)] = 10
    isolation: str = ""
    checkpoint: str = PLACE


class MigConfig(_Section, frozen=True):
    """Whether slices that are granted are made here, and cards put in MIG mode for them."""

    cut: bool = True
    enable: bool = False


class MonitorConfig(_Section, frozen=True):
    """The metrics of cards and shares; an empty address means none."""

    listen: str = ":9394"


class HamiSection(_Section, frozen=True):
    """Where HAMi-core is; see ``HamiCore``."""

    library: str = HamiCore().library
    preload: Preload = Preload.FILE
    preload_file: str = HamiCore().preload_file
    lock: str = HamiCore().lock
    caches: str = HamiCore().caches
    cache: str = HamiCore().cache


class MountEntry(_Section, frozen=True):
    """A bind mount."""

    source: str
    destination: str
    read_only: bool = True


class ProfileSection(_Section, frozen=True):
    """What is not named here stays as the vendor's own profile has it; see ``Profile``."""

    served: bool | msgspec.UnsetType = msgspec.UNSET
    visible: str | msgspec.UnsetType = msgspec.UNSET
    names: str | msgspec.UnsetType = msgspec.UNSET
    card_devices: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    devices: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    optional_devices: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    cdi: str | msgspec.UnsetType = msgspec.UNSET
    env: dict[str, str] | msgspec.UnsetType = msgspec.UNSET
    mounts: tuple[MountEntry, ...] | msgspec.UnsetType = msgspec.UNSET
    hami_core: HamiSection | msgspec.UnsetType | None = msgspec.UNSET


class AgentConfig(_Section, frozen=True):
    """The whole file.

    Attributes:
        node: name of the node; else ``$NODE_NAME``, else the host's name.
        socket: where the runtime waits for plugins.
        exempt: namespaces whose containers without a share keep what their images say.
    """

    node: str = ""
    socket: str = "/var/run/nri/nri.sock"
    plugin: PluginConfig = PluginConfig()
    ledger: LedgerSource = LedgerSource()
    inventory: InventorySource = InventorySource()
    publish: PublishConfig = PublishConfig()
    mig: MigConfig = MigConfig()
    monitor: MonitorConfig = MonitorConfig()
    exempt: tuple[str, ...] = ()
    profiles: dict[str, ProfileSection] = msgspec.field(default_factory=dict[str, ProfileSection])


def read(path: Path) -> AgentConfig:
    """The configuration in a file.

    Raises:
        ConfigError: it cannot be read, or says something that cannot be meant.
    """
    try:
        text = yaml.safe_load(path.read_bytes())
        config = msgspec.convert({} if text is None else text, AgentConfig)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    except (yaml.YAMLError, msgspec.ValidationError) as error:
        raise ConfigError(f"{path}: {error}") from error
    index = config.plugin.index
    if len(index) != 2 or not (index.isascii() and index.isdigit()):
        raise ConfigError(f"{path}: plugin.index: {index!r} must be two digits, in quotes")
    if config.inventory.source not in ("nvml", "file", "none"):
        raise ConfigError(f"{path}: inventory.source: must be nvml, file or none")
    names = registry.names()
    for name in config.publish.dialects:
        if name not in names:
            raise ConfigError(
                f"{path}: publish.dialects: {name!r}: must be one of {', '.join(names)}"
            )
    return config


def node_name(config: AgentConfig) -> str:
    """The node's name."""
    return config.node or os.environ.get("NODE_NAME") or os.uname().nodename


def profiles(config: AgentConfig) -> dict[str, VendorProfile]:
    """By vendor: the vendors' own, changed by what the configuration says."""
    own = {"nvidia": NVIDIA, "metax": METAX}
    named = {
        vendor: _profile(section, own.get(vendor, VendorProfile()))
        for vendor, section in config.profiles.items()
    }
    return own | named


def _profile(section: ProfileSection, base: VendorProfile) -> VendorProfile:
    said = {name: getattr(section, name) for name in section.__struct_fields__}
    words = {name: value for name, value in said.items() if value is not msgspec.UNSET}
    if "hami_core" in words:
        hami = words.pop("hami_core")
        words["hami"] = None if hami is None else HamiCore(**msgspec.structs.asdict(hami))
    if "mounts" in words:
        words["mounts"] = tuple(
            Mount(m.destination, "bind", m.source, ("rbind", "ro" if m.read_only else "rw"))
            for m in words["mounts"]
        )
    if "env" in words:
        words["env"] = MappingProxyType(words["env"])
    fields = {name: getattr(base, name) for name in base.__slots__}
    return VendorProfile(**(fields | words))
