"""What a pod's scheduler said last, without what Dragoman counts itself.

The condition ``PodScheduled`` of a pod has the message of the latest ``FailedScheduling`` Event,
and does not expire as Events do. Source: kubernetes pkg/scheduler/framework/types.go, FitError
("0/%v nodes are available: 3 Insufficient cpu, 1 node(s) were unschedulable.", sorted by text);
volcano pkg/scheduler/api/unschedule_info.go, FitErrors ("0/%v nodes are unavailable: ...").
"""

import re
from collections.abc import Iterator

from adapters.wire.kube import Pod, rejection_of
from core.requests.reason import Cause

DEFAULT = "default-scheduler"

LONGEST = 200
"""Characters of the message that are shown."""

OTHER_REASONS = "cards: other reasons (dragoman explain pod)"
"""The reason of a node, of our own, where a scheduler was given enough different ones."""

_HEAD = re.compile(r"(?:In hyperNode \S+ )?0/\d+ nodes are (?:un)?available: ")
_PART = re.compile(r", (?=\d+ )")
_NUMBER = re.compile(r"^\d+ ")
_PREEMPTION = re.compile(r"\.? (?:pod group )?preemption: ")

_COUNTED = (
    "node(s) were unschedulable",
    "node(s) didn't match Pod's node affinity",
    "node(s) had untolerated taint",
    "node(s) had taint",
    "Insufficient nvidia.com/",
    "Insufficient volcano.sh/",
    "Insufficient koordinator.sh/",
    "Insufficient metax-tech.com/",
)
"""Beginnings of reasons that the answer states itself.

Source: kubernetes 1.37 pkg/scheduler/framework/plugins/nodeunschedulable, nodeaffinity and
tainttoleration; noderesources/fit.go for resources of cards, whose devices the answer counts.
"""


_OURS = re.compile(
    r"(?:\d+|some) of \d+ cards: |\d+ cards asked for one container|quota of namespace |"
    rf"{re.escape(OTHER_REASONS)}|"
    + "|".join(f"{re.escape(str(cause.value))}$" for cause in Cause)
    + "|no cards: it has "
    + r"|gang \S+ of \d+: (?:\d+ of \d+ fit together|its pods request more)"
    + r"|gang \S+: \d+ of \d+ pods exist"
)
"""Beginnings of Dragoman's reasons (``Reason.text``), which the scheduler repeats."""


def scheduler_of(pod: Pod) -> str:
    """The scheduler of a pod by the name that people know."""
    name = pod.spec.scheduler_name or DEFAULT
    return "kube-scheduler" if name == DEFAULT else name


def scheduler_message(pod: Pod) -> str:
    """What a pod's scheduler said last beside what counts here; empty where nothing.

    Such as ``kube-scheduler said: Insufficient cpu``.
    """
    condition = rejection_of(pod)
    if condition is None:
        return ""
    text = ", ".join(_others(condition.message))
    text = text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
    return f"{scheduler_of(pod)} said: {text}" if text else ""


def _others(message: str) -> Iterator[str]:
    """The reasons of a message without their numbers of nodes, each once."""
    plain = " ".join(message.split())
    head = _HEAD.match(plain)
    if head is None:
        if plain and not _OURS.match(plain):
            yield plain
        return
    reasons = _PREEMPTION.split(plain[head.end() :])[0].removesuffix(".")
    seen: set[str] = set()
    for part in _PART.split(reasons):
        text = _NUMBER.sub("", part, count=1)
        if text and text not in seen and not text.startswith(_COUNTED) and not _OURS.match(text):
            seen.add(text)
            yield text
