"""What HAMi's webhook denies, for the dialects whose pods it reads."""

from adapters.dialects.containers import pod_containers
from adapters.dialects.dialect import DialectError
from adapters.wire.kube import Pod


def reject_privileged(pod: Pod) -> None:
    """Reject a pod that requests a share and has a privileged container.

    One privileged container of the pod is enough, also an init container or one without a share.
    Source: HAMi v2.10 pkg/scheduler/webhook.go:106-109 (``Handle``) and 130-148
    (``privilegedContainerName``, ``isPrivilegedContainer``).

    Raises:
        DialectError: a container is privileged.
    """
    for member in pod_containers(pod):
        context = member.container.security_context
        if context is not None and context.privileged:
            raise DialectError(
                f"{member.path}.securityContext.privileged",
                context.privileged,
                "must be false or absent in a pod that requests a share of a card: a privileged"
                " container reaches every card of its node; request whole cards without amounts,"
                " or no card",
            )
