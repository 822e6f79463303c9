"""The value of ``--node-policy`` and ``--device-policy``."""

from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from adapters.dialects.dialect import SchedulingPolicy


class PolicyOption(Enum):
    """The values of ``SchedulingPolicy``, for help texts, which need no dialect."""

    BINPACK = "binpack"
    SPREAD = "spread"


def chosen_policy(option: PolicyOption | None) -> "SchedulingPolicy | None":
    """The policy that an option names; None for none."""
    from adapters.dialects.dialect import SchedulingPolicy

    return None if option is None else SchedulingPolicy(option.value)
