"""``dragoman serve``: reads the inventory from files and runs the service."""

import sys
from collections.abc import Sequence
from pathlib import Path

import typer

from adapters.cli.input.manifests import Manifests, manifests
from adapters.cli.input.settings import documents
from adapters.cli.input.source import InputError, sources
from adapters.sidecar.main import StartError, StartOptions
from adapters.sidecar.main import serve as run
from adapters.sidecar.standalone.seed import StaticInventory

BAD_INPUT = 2

_NO_QUOTAS = (
    "the service obeys a ShareQuota in a cluster only; leave it out, or use dragoman schedule"
)


def serve(
    config: Path | None, inventory: Sequence[str], store: str | None, listen: str | None
) -> None:
    """Serve until a signal arrives; invalid input is an error text and exit status 2."""
    chosen = {"DRAGOMAN_STORE": store, "DRAGOMAN_LISTEN": listen}
    overrides = {name: value for name, value in chosen.items() if value is not None}
    try:
        found = manifests(sources(inventory, sys.stdin.buffer)) if inventory else Manifests()
        options = StartOptions(
            config,
            overrides,
            static_inventory(found),
            documents(found.config_maps),
            announce=_announce,
        )
        run(options)
    except (InputError, StartError) as error:
        typer.echo(f"dragoman: {error}", err=True)
        raise typer.Exit(BAD_INPUT) from None


def _announce(address: str) -> None:
    typer.echo(f"dragoman serves on {address}")


def static_inventory(found: Manifests) -> StaticInventory:
    """The inventory among manifests.

    Raises:
        InputError: there is a ShareQuota, which would limit nothing.
    """
    for _, place in found.quotas.values():
        raise InputError(place, _NO_QUOTAS)
    return StaticInventory(
        nodes=tuple(node for node, _ in found.nodes.values()),
        devices={name: device for name, (device, _) in found.devices.items()},
        pods=tuple(pod for pod, _ in found.pods.values()),
    )
