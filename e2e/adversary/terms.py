"""On which terms a pod shares its cards, by rules of the adversary's own.

A rule for sharing a card is here once: a field, its annotation, what it breaks, the pods that state
it, and by which name the service is started without it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

GROUP = "scheduling.k8s.io/group-name"
SPREAD = "volcano.sh/vgpu-podgroup-policy"
QOS = "metax-tech.com/sgpu-qos-policy"
APP_CLASS = "metax-tech.com/sgpu-app-class"

STATED: dict[str, Callable[[Random], dict[str, str]]] = {
    "spread": lambda dice: {SPREAD: "spread", GROUP: dice.choice(("red", "blue"))},
}
"""By the kind of a pod of Volcano's, the annotations that state its terms."""

MISSING: dict[str, tuple[str, tuple[str, ...]]] = {
    "groups": ("group", ("spread",)),
    "QoS": ("qos", ("metax",)),
    "classes": ("task_class", ("class", "volcano")),
}
"""By rule, the term that a service without it does not see, and the kinds of pods that show it."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What a pod demands of the pods that have a share of its cards.

    Attributes:
        task_class: ``normal``, ``online`` or ``offline``.
        qos: how the driver shares a card's compute; None where every policy suits.
        group: a pod of the same group has no card in common with this one; None for no such rule.
    """

    task_class: str = "normal"
    qos: str | None = None
    group: str | None = None


ANY_TERMS = Terms()
"""The terms of a pod that demands nothing."""


def volcano_terms(texts: Mapping[str, str]) -> Terms:
    """The terms that the annotations of a pod of Volcano's state."""
    return Terms(group=texts.get(GROUP) if texts.get(SPREAD) == "spread" else None)


def metax_terms(texts: Mapping[str, str], *, limited: bool) -> Terms:
    """The terms of a pod of MetaX's; ``limited`` if a container has a part of the compute."""
    task_class = texts.get(APP_CLASS, "normal")
    has_policy = limited and task_class != "online"
    return Terms(task_class, texts.get(QOS, "best-effort") if has_policy else None)


def broken_terms(left: Terms, right: Terms) -> list[str]:
    """What the shares of two pods on one card break, as sentences that begin with the rule."""
    texts = []
    classes = (left.task_class, right.task_class)
    if ("normal" in classes) != (classes == ("normal", "normal")):  # normal ones by themselves
        texts.append(f"classes: {left.task_class} beside {right.task_class}")
    if None not in (left.qos, right.qos) and left.qos != right.qos:
        texts.append(f"QoS: {left.qos} beside {right.qos}")
    if left.group is not None and left.group == right.group:
        texts.append(f"groups: two pods of {left.group}")
    return texts
