"""What of the machine, besides its cards, the agent and its containers need."""

import re
import stat
import tomllib
from collections.abc import Iterator
from glob import glob
from pathlib import Path
from typing import Any

from msgspec import Struct

from adapters.agent.config import AgentConfig, profiles
from adapters.agent.kubelet import MAX_FILE, CheckpointError, read_checkpoint
from e2e.gpu.reading import Reading

_LISTENS = "00010000"
"""Flags of a listening socket in /proc/net/unix: SO_ACCEPTCON (linux/net.h, __SO_ACCEPTCON)."""

_RUNTIMES = {
    "containerd": "run/containerd/containerd.sock",
    "CRI-O": "run/crio/crio.sock",
}
_CONTAINERD = "etc/containerd/config.toml"
_NRI = "io.containerd.nri.v1.nri"
"""The plugin's table in containerd's configuration; see configs/containerd/nri-2.x.toml."""
_DRIVER = re.compile(r"Module\s+(\S+)")


class Fact(Struct, frozen=True):
    """One thing about the machine.

    Attributes:
        what: such as ``NRI``.
        found: what the probe found, as a text.
        missing: whether containers with shares do not start, or are not limited, without it.
    """

    what: str
    found: str
    missing: bool = False


def read_machine(config: AgentConfig, reading: Reading, root: Path = Path("/")) -> tuple[Fact, ...]:
    """Look at the machine; nothing is opened for writing, and no socket is connected to.

    Args:
        config: of the agent.
        reading: of the cards, whose device nodes are looked for.
        root: of the machine's files; another folder for tests.
    """
    return (
        Fact("kernel's driver", _kernel_driver(root)),
        *_devices(config, reading, root),
        Fact("runtime", _runtimes(root)),
        _nri(config, root),
        *_containerd(root),
        *_hami_core(config, root),
        Fact("kubelet's devices", _checkpoint(config, root)),
        Fact("control groups", _control_groups(root)),
    )


def _kernel_driver(root: Path) -> str:
    text = _text(root / "proc/driver/nvidia/version")
    found = None if text is None else _DRIVER.search(text)
    return "not loaded" if found is None else found[1]


def _devices(config: AgentConfig, reading: Reading, root: Path) -> Iterator[Fact]:
    """Yield the device nodes that containers of each vendor get."""
    vendors = {card.vendor for card in reading.cards}
    for vendor, profile in profiles(config).items():
        if vendor not in vendors or not profile.injects:
            continue
        own = [
            path
            for card in reading.cards
            if card.vendor == vendor
            for path in (*card.devices, *(each for one in card.instances for each in one.devices))
        ]
        for paths, needed in ((dict.fromkeys((*own, *profile.devices)), True),
                              (dict.fromkeys(profile.optional_devices), False)):  # fmt: skip
            there = [path for path in paths if _is_device(_below(root, path))]
            absent = [path for path in paths if path not in there]
            if there:
                yield Fact(f"device nodes of {vendor}", ", ".join(there))
            if absent:
                text = f"{', '.join(absent)}: no device"
                yield Fact(f"device nodes of {vendor}", text, missing=needed)


def _is_device(path: Path) -> bool:
    try:
        return stat.S_ISCHR(path.stat().st_mode)
    except OSError:
        return False


def _runtimes(root: Path) -> str:
    return ", ".join(name for name, path in _RUNTIMES.items() if (root / path).exists()) or "none"


def _nri(config: AgentConfig, root: Path) -> Fact:
    """Return the runtime's socket: whether it is there, and whether a process listens."""
    path = _below(root, config.socket)
    try:
        is_socket = stat.S_ISSOCK(path.stat().st_mode)
    except OSError as error:
        return Fact("NRI", f"{config.socket}: {error.strerror}", missing=True)
    if not is_socket:
        return Fact("NRI", f"{config.socket} is no socket", missing=True)
    own = {str(path), config.socket, str(path.resolve()).removeprefix(str(root).rstrip("/"))}
    for line in (_text(root / "proc/net/unix") or "").splitlines():
        words = line.split()
        if len(words) > 7 and words[7] in own and words[3] == _LISTENS:
            return Fact("NRI", f"{config.socket}: a process listens")
    return Fact("NRI", f"{config.socket} is there; who listens is not known in this name space")


def _containerd(root: Path) -> Iterator[Fact]:
    """Read NRI in containerd's configuration; nothing where this machine has no such file."""
    path = root / _CONTAINERD
    if _text(path) is None:
        return
    try:
        table = _nri_table(path, root, set())
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        yield Fact("containerd's NRI", f"/{_CONTAINERD} or a file that it imports: {error}")
        return
    off = table.get("disable") is True
    state = "disabled" if off else "enabled" if "disable" in table else "as containerd's default"
    yield Fact("containerd's NRI", state, missing=off)
    validator = table.get("default_validator")
    validator = validator if isinstance(validator, dict) else {}
    required = validator.get("required_plugins") or []
    pods = "of all pods" if required else "of pods that name them"
    on = validator.get("enable") is True
    names = f": {', '.join(map(str, required))}" if required else ""
    yield Fact("required plugins", f"checked for containers {pods}{names}" if on else "not checked")


def _nri_table(path: Path, root: Path, seen: set[Path]) -> dict[str, Any]:
    """Read NRI's table of a file; an imported table replaces the same one of the importing file."""
    seen.add(path)
    text = _text(path)
    content: dict[str, Any] = {} if text is None else tomllib.loads(text)
    plugins = content.get("plugins")
    table = plugins.get(_NRI) if isinstance(plugins, dict) else None
    found: dict[str, Any] = table if isinstance(table, dict) else {}
    imports = content.get("imports")
    for pattern in imports if isinstance(imports, list) else ():
        base = _below(root, pattern) if str(pattern).startswith("/") else path.parent / str(pattern)
        for name in sorted(glob(str(base))):  # noqa: PTH207 - a pattern with an absolute path
            if Path(name) not in seen:
                found = _nri_table(Path(name), root, seen) or found
    return found


def _hami_core(config: AgentConfig, root: Path) -> Iterator[Fact]:
    for vendor, profile in profiles(config).items():
        if profile.injects and profile.hami is not None:
            for path in (profile.hami.library, profile.hami.preload_file):
                there = _below(root, path).is_file()
                found = path if there else f"{path} does not exist"
                yield Fact(f"HAMi-core of {vendor}", found, missing=not there)


def _checkpoint(config: AgentConfig, root: Path) -> str:
    name = config.publish.checkpoint
    if not name:
        return "not read, by the configuration"
    try:
        with _below(root, name).open("rb") as file:
            found = read_checkpoint(file.read(MAX_FILE + 1))
    except (OSError, CheckpointError) as error:
        return f"{name}: {error.strerror if isinstance(error, OSError) else error}"
    return f"{name}: {len({each.pod for each in found})} pods with devices"


def _control_groups(root: Path) -> str:
    text = _text(root / "sys/fs/cgroup/cgroup.controllers")
    if text is None:
        return "version 1, or none" if (root / "sys/fs/cgroup").is_dir() else "none"
    return f"version 2: {' '.join(text.split())}"


def _below(root: Path, path: str) -> Path:
    return root / path.lstrip("/")


def _text(path: Path) -> str | None:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return None
