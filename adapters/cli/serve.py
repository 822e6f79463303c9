"""``dragoman serve``: reads the inventory from files and runs the service."""

from collections.abc import Sequence
from pathlib import Path

import typer

from adapters.cli.fleet.fleet import documents, read_fleet
from adapters.cli.input.document import check_file
from adapters.cli.input.manifests import Manifests
from adapters.cli.input.origin import read_files
from adapters.cli.input.source import InputError
from adapters.cli.output.terminal import message
from adapters.dialects.adoption import may_use_cards
from adapters.dialects.dialect import Defaults
from adapters.service.main import StartError, StartOptions, TaskFailedError
from adapters.service.main import serve as run
from adapters.service.standalone import StaticInventory
from core.quota.quota import Quota


def serve(
    config: Path | None, inventory: Sequence[str], store: str | None, listen: str | None
) -> None:
    """Serve until a signal arrives.

    An error is one line on standard error: exit status 2 for invalid input, 1 for a failed task.
    """
    chosen = {"DRAGOMAN_STORE": store, "DRAGOMAN_LISTEN": listen}
    overrides = {name: value for name, value in chosen.items() if value is not None}
    try:
        if config is not None:
            check_file(config)
        found = read_files(inventory) if inventory else Manifests()
        options = StartOptions(
            config,
            overrides,
            static_inventory(found),
            documents(found.config_maps),
            announce=lambda address: typer.echo(f"dragoman serves on {address}"),
        )
        run(options)
    except (InputError, StartError, TaskFailedError) as error:
        message("dragoman", error)
        raise typer.Exit(1 if isinstance(error, TaskFailedError) else 2) from None


def static_inventory(found: Manifests) -> StaticInventory:
    """Return the inventory among manifests.

    Raises:
        InputError: a NodeLedger or a ShareQuota cannot be read.
    """
    fleet = read_fleet(found, Defaults())
    for name, state in fleet.nodes.items():
        if state.unreadable is not None:
            _, place = found.ledgers[name]
            remedy = "leave it out, and the records on the pods count"
            raise InputError(place, f"NodeLedger {name}: {state.unreadable}; {remedy}")
    elsewhere = (
        f"pod {name}: is bound to {pod.spec.node_name}, which is not among the input"
        for name, pod in fleet.pods.items()
        if pod.spec.node_name not in fleet.nodes and may_use_cards(pod)
    )
    return StaticInventory(
        tuple(state.ledger for state in fleet.nodes.values()),
        {name: state.kube for name, state in fleet.nodes.items()},
        tuple(fleet.pods.values()),
        tuple(
            Quota(each.namespace, each.limits, host_limits=each.host_limits)
            for each in fleet.quotas.values()
        ),
        (*fleet.warnings(), *elsewhere),
        fleet.groups,
        fleet.claims,
    )
