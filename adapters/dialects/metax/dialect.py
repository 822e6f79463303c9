"""The dialect of MetaX cards under HAMi."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from adapters.dialects.containers import reject_privileged, resource_names
from adapters.dialects.dialect import (
    AdmissionDefaults,
    AdoptedAllocation,
    Defaults,
    Dialect,
    Documents,
    NodeDescription,
    Result,
)
from adapters.dialects.metax import keys, result
from adapters.dialects.metax import node as nodes
from adapters.dialects.metax import pod as pods
from adapters.dialects.metax.result import read_adopted
from adapters.wire.kube import DeviceObject, KubeNode, Pod, annotations
from core.hardware.card import Card, Mode
from core.hardware.node import Node
from core.requests.grant import Grant, Placement
from core.requests.request import Request


@dataclass(frozen=True, slots=True)
class Metax(Dialect):
    """The dialect with its settings.

    It has no ``quota_units``: a limit here binds all cards, and HAMi's of MetaX those alone.

    Attributes:
        config: HAMi's device configuration.
        defaults: of the operator.
        named: the resources of the configuration; a pod that names one means this dialect.
    """

    name = keys.NAME
    result_keys = keys.RESULT_KEYS
    frees_init_shares = True

    config: keys.MetaxConfig
    defaults: Defaults
    named: frozenset[str]

    @classmethod
    def configured(cls, settings: Documents, defaults: Defaults) -> Self:
        """Create the dialect with the settings files.

        Raises:
            DialectError: a settings file has an invalid value.
        """
        config = keys.read_config(settings)
        return cls(config, defaults, frozenset(config.resources))

    def matches(self, pod: Pod) -> bool:
        """Return whether the pod names a resource of this dialect, even with an amount of 0."""
        return not self.named.isdisjoint(resource_names(pod))

    def read_request(self, pod: Pod) -> Request:
        """Read what a pod that ``matches`` requests.

        Raises:
            DialectError: the request is invalid.
        """
        return pods.read_request(pod, self.config, self.defaults)

    def admission_defaults(self, pod: Pod, request: Request) -> AdmissionDefaults:
        """Return the QoS policy of shares; see ``Dialect``.

        Raises:
            DialectError: the pod requests a share and has a privileged container.
        """
        if Mode.WHOLE not in request.modes:
            reject_privileged(pod)
        return AdmissionDefaults(pods.default_annotations(annotations(pod), request))

    def read_node(self, node: KubeNode, device: DeviceObject | None) -> NodeDescription:  # noqa: ARG002
        """Read the cards of a node, only from the node object."""
        return nodes.read_node(node, self.config)

    def resources(self, cards: Sequence[Card]) -> Mapping[str, int]:
        """Return the number of possible sharers; see ``Dialect``."""
        return nodes.resources(cards, self.config)

    def needs_node_lock(self, request: Request, node: KubeNode) -> bool:
        """Return whether a pod has shares, and MetaX's plugin describes the node."""
        return nodes.needs_node_lock(request, node)

    def has_result(self, pod: Pod) -> bool:
        """Return whether the pod has a record of an allocation."""
        return result.has_result(pod)

    def read_result(self, pod: Pod, request: Request, node: Node) -> tuple[Grant, ...]:
        """Read the grants of a pod, in start order of its containers.

        Raises:
            DialectError: the record cannot be parsed.
        """
        return result.read_result(pod, request, node)

    def read_adopted(self, pod: Pod, node: Node) -> AdoptedAllocation | None:
        """Read what HAMi's scheduler allocated to a pod; see ``Dialect``.

        Raises:
            DialectError: the record cannot be parsed.
        """
        return read_adopted(pod, node, self.config)

    def write_result(
        self,
        pod: Pod,
        request: Request,
        placement: Placement,
        node: Node,  # noqa: ARG002
        now: int,
    ) -> Result:
        """Write the record of a placement."""
        return result.write_result(pod, request, placement, now)
