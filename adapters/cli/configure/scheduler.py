"""The kinds of schedulers that ``dragoman configure`` knows."""

from enum import Enum


class Scheduler(Enum):
    """A scheduler, by the name of its program."""

    KUBE = "kube-scheduler"
    KOORD = "koord-scheduler"
    VOLCANO = "vc-scheduler"
