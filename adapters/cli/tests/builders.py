"""Manifests as plain objects, and a way to run the command on them."""

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from adapters.cli.fleet.fleet import read_fleet
from adapters.cli.input.manifests import manifests
from adapters.cli.input.source import Source
from adapters.cli.main import app
from adapters.dialects.dialect import Defaults
from adapters.wire.records.ledger import encode
from core.hardware.quantity import MIB

Plain = dict[str, Any]

AT = "2026-01-31T12:00:00Z"
"""The time of all runs here."""


def run(*arguments: str | Path, stdin: str | bytes | None = None) -> Result:
    return CliRunner().invoke(app, ["schedule", *map(str, arguments), "--at", AT], input=stdin)


def report(*things: Plain, options: tuple[str, ...] = ()) -> Plain:
    """The JSON report on some objects."""
    found = run("-f", "-", "-o", "json", *options, stdin=stream(*things))
    assert found.exit_code in (0, 1), found.output
    plain: Plain = json.loads(found.stdout)
    return plain


def stream(*things: Plain) -> str:
    return "\n".join(json.dumps(thing) for thing in things)


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def uuid(card: int, node: str = "node-a") -> str:
    return f"GPU-{node}-{card}"


def node(
    name: str = "node-a", cards: int = 2, memory: int = 10000 * MIB, more: Plain | None = None
) -> Plain:
    """A node with cards in Volcano's annotation, which counts MiB."""
    entries = (f"{uuid(i, name)},10,{memory // MIB},NVIDIA-A,true,hami-core:" for i in range(cards))
    annotations = {"volcano.sh/node-vgpu-register": "".join(entries)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "annotations": annotations},
        **(more or {}),
    }


def pod(name: str = "pod-a", limits: Plain | None = None, **more: Plain) -> Plain:
    """A pod with one container; keywords extend metadata, spec and status."""
    container = {"name": "main", "resources": {"limits": limits or {}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **more.get("metadata", {})},
        "spec": {"containers": [container], **more.get("spec", {})},
        "status": more.get("status", {}),
    }


def a_slice(*cards: str) -> Plain:
    devices = [
        {
            "name": f"gpu-{index}",
            "attributes": {"uuid": {"string": card}},
            "capacity": {"memory": {"value": "10000Mi"}},
        }
        for index, card in enumerate(cards)
    ]
    spec = {
        "driver": "gpu.nvidia.com",
        "nodeName": "node-a",
        "pool": {"name": "node-a", "generation": 1},
        "devices": devices,
    }
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "s"},
        "spec": spec,
    }


def a_claim(device: str, name: str = "c", **more: object) -> Plain:
    result = {"driver": "gpu.nvidia.com", "pool": "node-a", "device": device, **more}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "team"},
        "status": {"allocation": {"devices": {"results": [result]}}},
    }


def volcano_bound(
    name: str, memory: int, card: int = 0, on: str = "node-a", **metadata: Any
) -> Plain:
    """A running pod with Volcano's record of one card."""
    record = {"volcano.sh/vgpu-ids-new": f"{uuid(card, on)},NVIDIA,{memory},0:"}
    return pod(
        name,
        volcano(memory),
        metadata={"uid": f"uid-{name}", "annotations": record, **metadata},
        spec={"nodeName": on},
        status={"phase": "Running"},
    )


def ledger_of(*things: Plain, on: str = "node-a") -> Plain:
    """The NodeLedger of a node after the pods among some objects were adopted."""
    found = manifests([Source("things", stream(*things), named=True)])
    ledger = read_fleet(found, Defaults()).nodes[on].ledger
    return {
        "apiVersion": "dragoman.dev/v1alpha1",
        "kind": "NodeLedger",
        "metadata": {"name": on},
        "spec": json.loads(encode(ledger)),
    }


def volcano(memory: int, number: int = 1, cores: int = 0) -> Plain:
    """Limits of a container in Volcano's dialect."""
    return {
        "volcano.sh/vgpu-number": number,
        "volcano.sh/vgpu-memory": memory,
        "volcano.sh/vgpu-cores": cores,
    }


def metax(vcore: int, vmemory: int) -> Plain:
    """Limits of a container in MetaX's dialect."""
    return {
        "metax-tech.com/sgpu": 1,
        "metax-tech.com/vcore": vcore,
        "metax-tech.com/vmemory": vmemory,
    }


def device(name: str, *ids: str, memory: str = "10000Mi") -> Plain:
    """Koordinator's inventory of a node."""
    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Device",
        "metadata": {"name": name},
        "spec": {
            "devices": [
                {
                    "type": "gpu",
                    "id": id_,
                    "minor": minor,
                    "health": True,
                    "resources": {"koordinator.sh/gpu-memory": memory},
                }
                for minor, id_ in enumerate(ids)
            ]
        },
    }
