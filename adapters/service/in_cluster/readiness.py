"""What the service waits for in a cluster before it decides."""

from enum import StrEnum


class Sync(StrEnum):
    """One thing to wait for; ``/readyz`` shows the value."""

    PODS = "pods"
    NODES = "nodes"
    DEVICES = "devices"
    CLAIMS = "resourceclaims"
    SLICES = "resourceslices"
    CLASSES = "deviceclasses"
    QUOTAS = "quotas"
    RESOURCE_QUOTAS = "resourcequotas"
    POD_GROUPS = "podgroups"
    KOORDINATOR_POD_GROUPS = "podgroups of koord-scheduler"
    PLUGINS_POD_GROUPS = "podgroups of scheduler-plugins"
    SCHEDULER_CONFIG = "the schedulers' settings"
    ADOPTION = "adoption of bound pods"
    CERTIFICATE = "the certificate"


GANGS = frozenset((Sync.POD_GROUPS, Sync.KOORDINATOR_POD_GROUPS, Sync.PLUGINS_POD_GROUPS))
"""A pod whose gang is not known yet would be bound alone."""

WATCHED = GANGS | {
    Sync.PODS,
    Sync.NODES,
    Sync.DEVICES,
    Sync.QUOTAS,
    Sync.RESOURCE_QUOTAS,
    Sync.SCHEDULER_CONFIG,
}
"""Complete after the first list of each watch; the reconciler starts then."""

CLAIMS = frozenset((Sync.CLAIMS, Sync.SLICES, Sync.CLASSES))
"""What completes after the first list of each watch that ResourceClaims need, if they count."""
