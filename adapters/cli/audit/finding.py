"""Findings, and the rules that give them. Ids of rules and levels are a contract."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType


class Severity(Enum):
    """How bad a finding is."""

    ERROR = "error"
    """Containers share what they must not share, or may do so at any time."""
    WARNING = "warning"
    """What counts as in use may differ from what is in use."""
    NOTE = "note"
    """A person should know it."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule.

    Attributes:
        id: in reports; it never changes.
        level: of its findings.
        title: what a finding means, in a sentence without a period.
        remedy: what to do, as a sentence.
    """

    id: str
    level: Severity
    title: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong.

    Attributes:
        rule: the rule that it breaks.
        text: with names and amounts.
        node: name; empty where it concerns no node.
        card: uuid; empty where it concerns no single card.
        pod: ``namespace/name``; empty where it concerns no single pod.
        file: where the object is, for a dump; empty for a live cluster.
        line: in the file, from 1; 0 where there is no file.
        namespaces: those of the pods that it concerns.
    """

    rule: Rule
    text: str
    node: str = ""
    card: str = ""
    pod: str = ""
    file: str = ""
    line: int = 0
    namespaces: frozenset[str] = field(default_factory=frozenset)


ERROR, WARNING, NOTE = Severity

_MEANINGS = {
    "memory-over-allocated": (ERROR, "pods have more memory of a card than it has"),
    "compute-over-allocated": (ERROR, "pods have more than 100 % of a card's compute"),
    "slots-over-allocated": (ERROR, "more containers share a card than its device plugin allows"),
    "pods-exclude-each-other": (
        ERROR,
        "two pods share a card that one must have alone, or that their rules forbid",
    ),
    "containers-exclude-each-other": (ERROR, "two containers of a pod have what only one can have"),
    "edited-record": (ERROR, "the record of a pod's cards contradicts its request"),
    "container-without-share": (
        ERROR,
        "containers run without the devices that the ledger grants them",
    ),
    "limit-above-grant": (
        ERROR,
        "a container may use more memory of a card than the ledger grants it",
    ),
    "use-above-grant": (
        WARNING,
        "a container uses more memory of a card than the ledger grants it",
    ),
    "bound-without-cards": (
        WARNING,
        "a pod was bound while the service was away, and has no cards yet",
    ),
    "share-without-record": (WARNING, "a pod requests a share and has no record of its cards"),
    "unreadable-allocation": (WARNING, "the record of a pod's cards cannot be read"),
    "claim-without-pod": (WARNING, "a claim keeps cards and is reserved for no pod"),
    "claim-without-card": (WARNING, "a claim has a device of which no card is known"),
    "record-without-request": (WARNING, "a pod has a record of cards and requests no share"),
    "unknown-card": (WARNING, "a pod's record names a card that its node does not have"),
    "two-allocators": (
        WARNING,
        "several components allocate one card, or the cards of a node, without a common ledger",
    ),
    "node-description": (
        WARNING,
        "the description of a node's cards is invalid or contradicts itself",
    ),
    "device-plugin-labels": (NOTE, "labels of a node contradict what its device plugin states"),
    "pod-on-unknown-node": (
        WARNING,
        "a pod that requests a share is bound to a node that does not exist",
    ),
    "quota-exceeded": (WARNING, "the pods of a namespace have more than its ShareQuota allows"),
    "gang-bound-in-part": (WARNING, "pods of a gang are bound, and others that it needs wait"),
    "unreadable-ledger": (
        ERROR,
        "a NodeLedger cannot be read, so that nothing is placed on its node",
    ),
    "ledger-without-node": (NOTE, "a NodeLedger has no node"),
    "pod-not-in-ledger": (WARNING, "a pod has cards that its node's NodeLedger does not know"),
    "allocation-without-pod": (
        WARNING,
        "a NodeLedger has an allocation of a pod that does not exist, or runs elsewhere",
    ),
    "record-differs-from-ledger": (
        WARNING,
        "the record of a pod names other cards than the NodeLedger",
    ),
    "ledger-describes-other-cards": (NOTE, "a NodeLedger has other cards than its node describes"),
}
"""What a finding means, in a sentence without a period, and how bad it is."""

_REMEDIES = {
    "memory-over-allocated": "End one of the pods, or let one scheduler decide for all of them.",
    "compute-over-allocated": "End one of the pods, or let one scheduler decide for all of them.",
    "slots-over-allocated": "End one of the pods.",
    "pods-exclude-each-other": "End one of the pods.",
    "containers-exclude-each-other": "Create the pod again.",
    "edited-record": "Create the pod again, with the scheduler of its dialect.",
    "container-without-share": (
        "Create their pods again, and find out why the runtime did not call the agent."
    ),
    "limit-above-grant": "Create the pod again, and find out who sets the limits of HAMi-core.",
    "use-above-grant": "Create the pod again; on cards without HAMi-core nothing limits it.",
    "bound-without-cards": "Wait for the service, or create the pod again if its node has no room.",
    "share-without-record": "Bind it with a scheduler of its dialect, or install the node agent.",
    "unreadable-allocation": (
        "Create the pod again; until then all cards that it may use count as in use."
    ),
    "claim-without-pod": "Delete the claim if no pod will use it.",
    "claim-without-card": "Look at the ResourceSlices of its driver, which describe no such card.",
    "record-without-request": "Remove the annotation, or find out who wrote it.",
    "unknown-card": "Find out whether the card failed or the record is wrong.",
    "two-allocators": "Keep one of them on the node, or let Dragoman decide for both.",
    "node-description": "Look at the component that writes it.",
    "device-plugin-labels": (
        "Look at the logs of gpu-feature-discovery and of the device plugin on the node."
    ),
    "pod-on-unknown-node": "Add the node to the dump, or delete the pod.",
    "quota-exceeded": "End some of them, or raise the limit; new pods are refused until then.",
    "gang-bound-in-part": (
        "Make room for the pods that wait (dragoman explain pod), or end the bound ones."
    ),
    "unreadable-ledger": "See docs/guides/troubleshooting.md.",
    "ledger-without-node": (
        "Nothing, where the node was removed a moment ago; else delete the object."
    ),
    "pod-not-in-ledger": "Look at the leader's log: it adopts such pods within seconds.",
    "allocation-without-pod": (
        "Look at the leader's log: it releases such allocations within seconds."
    ),
    "record-differs-from-ledger": (
        "The ledger counts; create the pod again if it uses the other cards."
    ),
    "ledger-describes-other-cards": "Look at the leader's log: it repairs this within seconds.",
}
"""What to do, as a sentence."""

RULES: Mapping[str, Rule] = MappingProxyType(
    {id_: Rule(id_, *meaning, _REMEDIES[id_]) for id_, meaning in _MEANINGS.items()}
)
"""The rules by id, in the order of reports."""
