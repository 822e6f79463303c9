"""Who decides about cards: the scheduler's own plugin, or Dragoman as its extender."""

from enum import Enum


class SchedulerMode(Enum):
    """How a scheduler that has a device plugin of its own works with Dragoman.

    In either mode the webhook for Bindings commits the cards.
    """

    NATIVE = "native"
    """The own plugin chooses the cards of its own dialect; Dragoman serves the other dialects."""

    EXTENDER = "extender"
    """Dragoman chooses the cards of all dialects; the scheduler's own plugin is out."""


class Asked(Enum):
    """About pods of which dialects a scheduler in native mode asks Dragoman."""

    ALL = "all"
    """Pods of its own dialect too: where no mirrored records show its plugin what others hold."""

    OTHERS = "others"
    """Pods of all dialects but its own."""

    NONE = "none"
    """No pods: it places those of its own dialect alone."""
