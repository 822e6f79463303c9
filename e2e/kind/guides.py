"""The guides of ``configs/examples`` on the cluster's workers."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import yaml

from e2e.harness.cluster.api import Object
from e2e.harness.oracles.expected import inventory_card
from e2e.harness.processes.run import REPOSITORY
from e2e.kind.described import METAX_WHOLE, NVIDIA_WHOLE, described, use_lists
from e2e.kind.shell import get, sh

CONFIGS = REPOSITORY / "configs"
OF_CARDS = re.compile(r"nvidia\d+|nvidiactl|nvidia-cap\d+|card\d+|mxcd")


@dataclass(frozen=True, slots=True)
class Inside:
    """What a command inside of a container finds: its environment, device nodes of cards."""

    env: Mapping[str, str]
    devices: frozenset[str]


def documents(guide: str) -> list[Object]:
    """The objects of a guide."""
    text = (CONFIGS / "examples" / f"{guide}.yaml").read_text()
    return [row for row in yaml.safe_load_all(text) if row]


def of_kind(found: Sequence[Object], kind: str) -> list[Object]:
    """The objects of one kind."""
    return [row for row in found if row["kind"] == kind]


@contextmanager
def staged(found: Sequence[Object], workers: Sequence[str]) -> Iterator[dict[str, str]]:
    """Describe a guide's nodes on workers; the guide's names of nodes by the workers'."""
    rows = of_kind(found, "Node")
    nodes = dict(zip(workers, (row["metadata"]["name"] for row in rows), strict=False))
    devices = {row["metadata"]["name"]: row for row in of_kind(found, "Device")}
    with ExitStack() as stack:
        stack.enter_context(_layouts(found))
        for worker, row in zip(nodes, rows, strict=True):
            said = {kind: row["metadata"].get(kind) or {} for kind in ("annotations", "labels")}
            device, capacity = devices.get(row["metadata"]["name"]), row["status"]["capacity"]
            # For HAMi's nodes the service publishes NVIDIA's, for Koordinator's no component does.
            plain = (METAX_WHOLE,) if device is None else (METAX_WHOLE, NVIDIA_WHOLE)
            whole = {name: capacity[name] for name in plain if name in capacity}
            stack.enter_context(described(worker, said, device, whole))
        yield nodes


def list_if_cut(workers: Sequence[str]) -> None:
    """List the workers' cards for their agents, if some are cut into MIG instances."""
    records = {worker: get(f"nodeledger {worker}")["spec"] for worker in workers}
    rows = [card for record in records.values() for card in record.get("cards", ())]
    if any(card.get("mode") == "mig" for card in rows):
        use_lists(
            {
                worker: [inventory_card(record, card) for card in record.get("cards", ())]
                for worker, record in records.items()
            }
        )


def look(name: str, container: str) -> Inside:
    """Look into a container."""
    said = sh(f"kubectl exec {name} -c {container} -- sh -c 'env; echo; ls /dev'")
    env, _, names = said.rpartition("\n\n")
    rows = (line.partition("=") for line in env.splitlines())
    devices = frozenset(each for each in names.split() if OF_CARDS.fullmatch(each))
    return Inside({key: value for key, _, value in rows}, devices)


def minors(found: Sequence[Object], node: str) -> list[str]:
    """The cards of a guide's node by the number that Koordinator calls them."""
    rows = [row for row in of_kind(found, "Device") if row["metadata"]["name"] == node]
    return [card["id"] for row in rows for card in row["spec"]["devices"]]


@contextmanager
def _layouts(found: Sequence[Object]) -> Iterator[None]:
    """The MIG layouts that a guide's nodes have, which are those of ``configs``."""
    file = CONFIGS / "mig-geometries.yaml"
    name = yaml.safe_load(file.read_text())["metadata"]["name"]
    if all(row["metadata"]["name"] != name for row in of_kind(found, "ConfigMap")):
        yield
        return
    sh(f"kubectl apply -f {file}")
    try:
        yield
    finally:
        sh(f"kubectl delete -f {file}")
