"""The agent's configuration file, and the values that it becomes."""

import os
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Annotated

import msgspec
import yaml

from adapters.agent.injection.profiles import PROFILES, HamiCore, VendorProfile
from adapters.agent.kubelet import CHECKPOINT
from adapters.agent.nri.model import Mount
from adapters.dialects import registry
from adapters.wire.decode.decoder import convert


class ConfigError(ValueError):
    """An invalid configuration."""


class _Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The base of all sections; an unknown key is an error."""


class PluginConfig(_Section, frozen=True):
    """Name and index of the NRI plugin; the runtime calls plugins by ascending index."""

    name: str = "dragoman"
    index: str = "50"


class LedgerSource(_Section, frozen=True):
    """Where the agent reads the node's ledger: a file, or else the cluster.

    Attributes:
        file: with the ledger; empty for the cluster.
        kubeconfig: for the cluster; empty for the pod's service account.
    """

    file: str = ""
    kubeconfig: str = ""


class InventorySource(_Section, frozen=True):
    """Where the agent reads the node's cards: ``nvml``, ``file`` or ``none``.

    Attributes:
        ignore_xids: Xids that do not make a card unhealthy, besides those of applications.
    """

    source: str = "nvml"
    file: str = ""
    ignore_xids: tuple[int, ...] = ()


class PublishConfig(_Section, frozen=True):
    """What the agent writes about the node's cards into the ledger; see ``SharingConfig``.

    Attributes:
        checkpoint: the kubelet's device checkpoint file; empty: the agent does not read it.
    """

    cards: bool = True
    dialects: tuple[str, ...] = ()
    slots: Annotated[int, msgspec.Meta(ge=1)] = 10
    isolation: str = ""
    checkpoint: str = CHECKPOINT


class MigConfig(_Section, frozen=True):
    """Whether the agent creates granted MIG slices, and enables MIG mode on cards for them."""

    cut: bool = True
    enable: bool = False


class MonitorConfig(_Section, frozen=True):
    """The metrics server; an empty address disables it."""

    listen: str = ":9394"


class MountEntry(_Section, frozen=True):
    """A bind mount."""

    source: str
    destination: str
    read_only: bool = True


class ProfileSection(_Section, frozen=True):
    """Changes of a vendor's built-in ``VendorProfile``; a key that is absent changes nothing."""

    served: bool | msgspec.UnsetType = msgspec.UNSET
    visible: str | msgspec.UnsetType = msgspec.UNSET
    names: str | msgspec.UnsetType = msgspec.UNSET
    card_devices: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    devices: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    optional_devices: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    cdi: str | msgspec.UnsetType = msgspec.UNSET
    env: dict[str, str] | msgspec.UnsetType = msgspec.UNSET
    mounts: tuple[MountEntry, ...] | msgspec.UnsetType = msgspec.UNSET
    hami_core: HamiCore | msgspec.UnsetType | None = msgspec.UNSET


_FIELDS = {
    "served": "injects",
    "visible": "visible_env",
    "names": "visible_value",
    "hami_core": "hami",
}
"""Fields of ``VendorProfile`` whose names differ from the configuration's keys."""


class AgentConfig(_Section, frozen=True):
    """The whole file.

    Attributes:
        node: its name; empty for ``$NODE_NAME``, else the host's name.
        exempt: namespaces whose containers without a share keep what their images set.
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
    """Read the configuration in a file.

    Raises:
        ConfigError: the file cannot be read, or a value is invalid.
    """
    try:
        text = yaml.safe_load(path.read_bytes())
        config = convert({} if text is None else text, AgentConfig)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    except (yaml.YAMLError, RecursionError, ValueError, OverflowError) as error:
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
    """Return the node's name."""
    return config.node or os.environ.get("NODE_NAME") or os.uname().nodename


def profiles(config: AgentConfig) -> dict[str, VendorProfile]:
    """Return the profiles by vendor: the built-in ones with the configuration's changes."""
    found = dict(PROFILES)
    for vendor, section in config.profiles.items():
        stated = {name: getattr(section, name) for name in section.__struct_fields__}
        changes = {
            _FIELDS.get(name, name): value
            for name, value in stated.items()
            if value is not msgspec.UNSET
        }
        if "mounts" in changes:
            changes["mounts"] = tuple(
                Mount(m.destination, "bind", m.source, ("rbind", "ro" if m.read_only else "rw"))
                for m in changes["mounts"]
            )
        if "env" in changes:
            changes["env"] = MappingProxyType(changes["env"])
        found[vendor] = replace(found.get(vendor, VendorProfile()), **changes)
    return found
