"""Which pods are converted to ResourceClaims."""

from collections.abc import Collection

from adapters.dialects.translation.conversion import Conversion, Inexact, convert
from adapters.service.decide.service import Service
from adapters.wire.kube import Pod, pod_ref

ALL = "*"
"""Any namespace."""


class ConversionPolicy:
    """Selects pods by their namespace and their scheduler."""

    def __init__(
        self, service: Service, namespaces: Collection[str], schedulers: Collection[str]
    ) -> None:
        """Know the quotas and the dialects of a service.

        Args:
            service: the service, with the quotas and dialects of these pods.
            namespaces: whose pods are converted; ``ALL`` is all of them.
            schedulers: those that allocate claims; pods of others stay as they are.
        """
        self._service = service
        self._namespaces = frozenset(namespaces)
        self._schedulers = frozenset(schedulers)

    def selects(self, pod: Pod) -> bool:
        """Whether a pod is to be converted if it can be."""
        namespace = pod_ref(pod).namespace
        is_named = ALL in self._namespaces or namespace in self._namespaces
        return is_named and (pod.spec.scheduler_name or "default-scheduler") in self._schedulers

    def convert(self, pod: Pod) -> Conversion | Inexact | None:
        """The claims of a pod that is selected; None where it requests no share.

        Raises:
            DialectError: the request is invalid.
        """
        namespace = pod_ref(pod).namespace
        conversion = convert(pod, self._service.pod_requests.dialects)
        if isinstance(conversion, Conversion) and self._service.quotas.limits(namespace):
            why = "has a ShareQuota, which a claim meets only when its pod has a node"
            return Inexact((f"namespace {namespace} {why}",))
        return conversion
