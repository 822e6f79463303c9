"""Who decides about cards: the scheduler's own plugin, or Dragoman as its extender."""

from enum import Enum


class Mode(Enum):
    """How a scheduler that has a device plugin of its own works with Dragoman.

    In either mode the webhook for Bindings commits the cards.
    """

    NATIVE = "native"
    """Its own plugin chooses the cards of its own dialect; Dragoman serves the other dialects."""

    EXTENDER = "extender"
    """Dragoman chooses the cards of all dialects; the scheduler's own plugin is out."""
