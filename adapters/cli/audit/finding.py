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


RULES: Mapping[str, Rule] = MappingProxyType(
    {
        rule.id: rule
        for rule in (
            Rule(
                "memory-over-allocated",
                Severity.ERROR,
                "pods have more memory of a card than it has",
                "End one of the pods, or let one scheduler decide for all of them.",
            ),
            Rule(
                "compute-over-allocated",
                Severity.ERROR,
                "pods have more than 100 % of a card's compute",
                "End one of the pods, or let one scheduler decide for all of them.",
            ),
            Rule(
                "slots-over-allocated",
                Severity.ERROR,
                "more containers share a card than its device plugin allows",
                "End one of the pods.",
            ),
            Rule(
                "pods-exclude-each-other",
                Severity.ERROR,
                "two pods share a card that one must have alone, or that their rules forbid",
                "End one of the pods.",
            ),
            Rule(
                "containers-exclude-each-other",
                Severity.ERROR,
                "two containers of a pod have what only one can have",
                "Create the pod again.",
            ),
            Rule(
                "edited-record",
                Severity.ERROR,
                "the record of a pod's cards contradicts its request",
                "Create the pod again, with the scheduler of its dialect.",
            ),
            Rule(
                "container-without-share",
                Severity.ERROR,
                "containers run without the devices that the ledger grants them",
                "Create their pods again, and find out why the runtime did not call the agent.",
            ),
            Rule(
                "limit-above-grant",
                Severity.ERROR,
                "a container may use more memory of a card than the ledger grants it",
                "Create the pod again, and find out who sets the limits of HAMi-core.",
            ),
            Rule(
                "use-above-grant",
                Severity.WARNING,
                "a container uses more memory of a card than the ledger grants it",
                "Create the pod again; on cards without HAMi-core nothing limits it.",
            ),
            Rule(
                "bound-without-cards",
                Severity.WARNING,
                "a pod was bound while the service was away, and has no cards yet",
                "Wait for the service, or create the pod again if its node has no room.",
            ),
            Rule(
                "share-without-record",
                Severity.WARNING,
                "a pod requests a share and has no record of its cards",
                "Bind it with a scheduler of its dialect, or install the node agent.",
            ),
            Rule(
                "unreadable-allocation",
                Severity.WARNING,
                "the record of a pod's cards cannot be read",
                "Create the pod again; until then all cards that it may use count as in use.",
            ),
            Rule(
                "claim-without-pod",
                Severity.WARNING,
                "a claim keeps cards and is reserved for no pod",
                "Delete the claim if no pod will use it.",
            ),
            Rule(
                "record-without-request",
                Severity.WARNING,
                "a pod has a record of cards and requests no share",
                "Remove the annotation, or find out who wrote it.",
            ),
            Rule(
                "unknown-card",
                Severity.WARNING,
                "a pod's record names a card that its node does not have",
                "Find out whether the card failed or the record is wrong.",
            ),
            Rule(
                "two-allocators",
                Severity.WARNING,
                "components of several dialects allocate one card without a common ledger",
                "Keep one of them on the node, or let Dragoman decide for both.",
            ),
            Rule(
                "node-description",
                Severity.WARNING,
                "the description of a node's cards is invalid or contradicts itself",
                "Look at the component that writes it.",
            ),
            Rule(
                "device-plugin-labels",
                Severity.NOTE,
                "labels of a node contradict what its device plugin states",
                "Look at the logs of gpu-feature-discovery and of the device plugin on the node.",
            ),
            Rule(
                "pod-on-unknown-node",
                Severity.WARNING,
                "a pod that requests a share is bound to a node that does not exist",
                "Add the node to the dump, or delete the pod.",
            ),
            Rule(
                "quota-exceeded",
                Severity.WARNING,
                "the pods of a namespace have more than its ShareQuota allows",
                "End some of them, or raise the limit; new pods are refused until then.",
            ),
            Rule(
                "gang-bound-in-part",
                Severity.WARNING,
                "pods of a gang are bound, and others that it needs wait",
                "Make room for the pods that wait (dragoman explain pod), or end the bound ones.",
            ),
            Rule(
                "unreadable-ledger",
                Severity.ERROR,
                "a NodeLedger cannot be read, so that nothing is placed on its node",
                "See docs/guides/troubleshooting.md.",
            ),
            Rule(
                "ledger-without-node",
                Severity.NOTE,
                "a NodeLedger has no node",
                "Nothing, where the node was removed a moment ago; else delete the object.",
            ),
            Rule(
                "pod-not-in-ledger",
                Severity.WARNING,
                "a pod has cards that its node's NodeLedger does not know",
                "Look at the leader's log: it adopts such pods within seconds.",
            ),
            Rule(
                "allocation-without-pod",
                Severity.WARNING,
                "a NodeLedger has an allocation of a pod that does not exist, or runs elsewhere",
                "Look at the leader's log: it releases such allocations within seconds.",
            ),
            Rule(
                "record-differs-from-ledger",
                Severity.WARNING,
                "the record of a pod names other cards than the NodeLedger",
                "The ledger counts; create the pod again if it uses the other cards.",
            ),
            Rule(
                "ledger-describes-other-cards",
                Severity.NOTE,
                "a NodeLedger has other cards than its node describes",
                "Look at the leader's log: it repairs this within seconds.",
            ),
        )
    }
)
"""The rules by id, in the order of reports."""
