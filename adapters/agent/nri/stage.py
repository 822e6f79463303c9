"""The stages of one NRI connection, and the calls that lead from one to the next.

Everything that decides which call is allowed when is in this file: a new call of the protocol needs
one line in ``_TRANSITIONS``. A pair of stage and call that is not there is answered with an error.
The order is containerd's (containerd/nri pkg/adaptation/adaptation.go, acceptPluginConnections, and
plugin.go, start, configure and synchronize): it may call before it has answered the registration;
it configures a plugin once; it synchronizes it once, possibly in pieces; only then it adds the
plugin to those that it calls for pods and containers.
"""

from enum import Enum

_IGNORED = frozenset(
    {
        "PostCreateContainer",
        "PostStartContainer",
        "PostUpdateContainer",
        "PostUpdatePodSandbox",
        "RemovePodSandbox",
        "RunPodSandbox",
        "StartContainer",
        "StopPodSandbox",
        "UpdateContainer",
        "UpdatePodSandbox",
    }
)
"""Calls about pods and containers that the plugin answers with nothing."""


class Stage(Enum):
    """How far the connection has come; the value completes "while the plugin is"."""

    NEW = "new"
    REGISTERING = "registering"
    CONFIGURED = "configured"
    SYNCHRONIZING = "synchronizing"
    ACTIVE = "active"
    """The runtime calls the plugin for every container."""


SYNCHRONIZED = "the last piece of Synchronize"

_ACTIVE_CALLS = _IGNORED | {"CreateContainer", "RemoveContainer", "StateChange", "StopContainer"}

_TRANSITIONS = {
    (Stage.NEW, "RegisterPlugin"): Stage.REGISTERING,
    (Stage.REGISTERING, "Configure"): Stage.CONFIGURED,
    (Stage.CONFIGURED, "Synchronize"): Stage.SYNCHRONIZING,
    (Stage.SYNCHRONIZING, "Synchronize"): Stage.SYNCHRONIZING,
    (Stage.SYNCHRONIZING, SYNCHRONIZED): Stage.ACTIVE,
    **{(Stage.ACTIVE, call): Stage.ACTIVE for call in _ACTIVE_CALLS},
    **{(stage, "Shutdown"): stage for stage in Stage},
}

CALLS = _ACTIVE_CALLS | {"Configure", "Synchronize", "Shutdown"}
"""What the runtime may call at all."""


class OutOfOrderError(RuntimeError):
    """A call that the runtime never makes in this stage."""


def next_stage(stage: Stage, call: str) -> Stage:
    """Return the stage after a call.

    Raises:
        OutOfOrderError: the call is not allowed in this stage.
    """
    following = _TRANSITIONS.get((stage, call))
    if following is None:
        raise OutOfOrderError(f"{call} is not allowed while the plugin is {stage.value}")
    return following
