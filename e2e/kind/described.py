"""Nodes whose cards annotations and Devices describe; the agents list none."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from e2e.kind import cards
from e2e.kind.pods import create
from e2e.kind.shell import eventually, get, sh

UPGRADE = "helm upgrade dragoman charts/dragoman -n dragoman-system --reuse-values --wait"
METAX_WHOLE, NVIDIA_WHOLE = "metax-tech.com/gpu", "nvidia.com/gpu"
"""Whole cards, which the vendors' device plugins state and schedulers count."""
CHANGES = (
    "node.inventory.source=none",
    "node.inventory.file=",
    "node.publish.cards=false",
    "service.settings.publish={volcano,koordinator,metax,hami}",
)
# By it the agent serves MetaX's cards; without it their plugin does.
METAX = {
    "served": True,
    "visible": "METAX_VISIBLE_DEVICES",
    "names": "{indexes}",
    "env": {"METAX_MEMORY_MIB": "{memories}", "METAX_COMPUTE": "{computes}"},
    "cardDevices": ["/dev/card{index}"],
    "devices": ["/dev/mxcd"],
}


def use_ledgers_cards(workers: Sequence[str]) -> None:
    """The agents list no cards: those of the ledgers, which the service reads from nodes, count."""
    for node in workers:
        cards.add_devices(node)
    words = " ".join(f"--set '{each}'" for each in CHANGES)
    sh(f"{UPGRADE} {words} --set-json 'node.profiles.metax={json.dumps(METAX)}'", timeout=300)
    for node in workers:
        # As docs/reference/node-agent.md says of an agent that is removed.
        none = "--subresource=status --type=merge -p '{\"status\": null}'"
        sh(f"kubectl patch nodeledger {node} {none}")
    eventually(60, lambda: all("cards" not in row["spec"] for row in get("nodeledgers")))


def use_lists(rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """The agents list these cards, by node, and do not report them: the ledgers' are the same."""
    for node, listed in rows.items():
        cards.write_list(node, listed)
    # Other annotations of the agents' pods, and so other pods: an agent reads at its start.
    version = hashlib.sha256(json.dumps(rows).encode()).hexdigest()[:8]
    source = f"--set node.inventory.source=file --set node.inventory.file={cards.LISTED}"
    sh(f"{UPGRADE} {source} --set-string node.podAnnotations.listed={version}", timeout=300)


def use_no_lists() -> None:
    """The agents list no cards again."""
    sh(f"{UPGRADE} --set node.inventory.source=none --set node.inventory.file=", timeout=300)


def use_agents_cards() -> None:
    """The agents list the cards again."""
    sh(f"{UPGRADE} -f e2e/kind/values.yaml --set node.publish.cards=true", timeout=300)


@contextmanager
def described(
    node: str,
    metadata: Mapping[str, Mapping[str, str]],
    device: Mapping[str, Any] | None,
    whole: Mapping[str, str] | None = None,
) -> Iterator[None]:
    """A node with cards, for the length of a block; then what it said before.

    Args:
        node: its name.
        metadata: annotations and labels by which it describes them.
        device: Koordinator's object for it, with the name of any node; None for none.
        whole: the amounts of whole cards that device plugins state; None for none.
    """
    found = get(f"node {node}")["metadata"]
    before = {kind: {k: found[kind].get(k) for k in each} for kind, each in metadata.items()}
    try:
        _patch(node, metadata)
        _state(node, whole or {})
        if device is not None:
            create({**device, "metadata": {**device["metadata"], "name": node}})
        eventually(60, lambda: "cards" in get(f"nodeledger {node}")["spec"])
        yield
    finally:
        _state(node, dict.fromkeys(whole or ()))
        _patch(node, before)
        sh(f"kubectl delete devices.scheduling.koordinator.sh --ignore-not-found {node}")
        eventually(60, lambda: "cards" not in get(f"nodeledger {node}")["spec"])


def _patch(node: str, metadata: Mapping[str, Mapping[str, str | None]]) -> None:
    sh(f"kubectl patch node {node} --type=merge -p '{json.dumps({'metadata': metadata})}'")


def _state(node: str, amounts: Mapping[str, str | None]) -> None:
    text = json.dumps({"status": {"capacity": amounts, "allocatable": amounts}})
    sh(f"kubectl patch node {node} --subresource=status --type=merge -p '{text}'")
