"""NetworkPolicies: whether a pod may call a Service where the network's plugin enforces them.

Source: k8s.io/api networking/v1 types.go.
"""

from collections.abc import Iterable, Mapping
from ipaddress import ip_address, ip_network
from typing import NamedTuple

from msgspec import field

from adapters.wire.budget import Selector, matches
from adapters.wire.kube import Metadata, Wire


class IpBlock(Wire, frozen=True, gc=False):
    """A range of addresses without some parts."""

    cidr: str = ""
    without: tuple[str, ...] | None = field(default=None, name="except")


class Peer(Wire, frozen=True, gc=False):
    """Who may call."""

    pod_selector: Selector | None = None
    namespace_selector: Selector | None = None
    ip_block: IpBlock | None = None


class PolicyPort(Wire, frozen=True, gc=False):
    """A port by its number or name."""

    port: int | str | None = None


class IngressRule(Wire, frozen=True, gc=False):
    """Who may call which ports: everyone, and all, where there is no list."""

    ports: tuple[PolicyPort, ...] | None = None
    callers: tuple[Peer, ...] | None = field(default=None, name="from")


class NetworkPolicySpec(Wire, frozen=True, gc=False):
    """The spec of a policy. Its types include ``Ingress`` unless it names others."""

    pod_selector: Selector = Selector()
    policy_types: tuple[str, ...] | None = None
    ingress: tuple[IngressRule, ...] | None = None


class NetworkPolicy(Wire, frozen=True, gc=False):
    """A NetworkPolicy."""

    metadata: Metadata = Metadata()
    spec: NetworkPolicySpec = NetworkPolicySpec()


class Caller(NamedTuple):
    """A pod that calls.

    Attributes:
        namespace: its own.
        namespace_labels: those of the namespace.
        labels: its own; None on the network of its node, where no selector finds it.
        addresses: from which its calls come.
    """

    namespace: str
    namespace_labels: Mapping[str, str]
    labels: Mapping[str, str] | None
    addresses: tuple[str, ...]


def closing(
    policies: Iterable[NetworkPolicy],
    namespace: str,
    called: Mapping[str, str],
    ports: Iterable[int | str],
    caller: Caller,
) -> list[str]:
    """Return the names of the policies that select the called pods, if none admits the caller.

    Args:
        policies: of the cluster.
        namespace: of the called pods.
        called: labels of the called pods.
        ports: the number and the name of the called port.
        caller: who calls.
    """
    selecting = [
        each
        for each in policies
        if each.metadata.namespace == namespace
        and "Ingress" in (each.spec.policy_types or ("Ingress",))
        and _selects(each.spec.pod_selector, called)
    ]
    rules = [rule for each in selecting for rule in each.spec.ingress or ()]
    if any(_admits(rule, namespace, frozenset(ports), caller) for rule in rules):
        return []
    return sorted(each.metadata.name for each in selecting)


def _admits(rule: IngressRule, namespace: str, ports: frozenset[int | str], caller: Caller) -> bool:
    if rule.ports and not any(each.port is None or each.port in ports for each in rule.ports):
        return False
    return not rule.callers or any(_is_peer(each, namespace, caller) for each in rule.callers)


def _is_peer(peer: Peer, namespace: str, caller: Caller) -> bool:
    if peer.ip_block is not None:
        outside = peer.ip_block.without or ()
        return any(
            _is_in(address, peer.ip_block.cidr)
            and not any(_is_in(address, each) for each in outside)
            for address in caller.addresses
        )
    if caller.labels is None:
        return False
    if peer.namespace_selector is None and caller.namespace != namespace:
        return False
    return _selects(peer.namespace_selector, caller.namespace_labels) and _selects(
        peer.pod_selector, caller.labels
    )


def _selects(selector: Selector | None, labels: Mapping[str, str]) -> bool:
    empty = selector is None or not (selector.match_labels or selector.match_expressions)
    return empty or matches(selector, labels)


def _is_in(address: str, cidr: str) -> bool:
    try:
        return ip_address(address) in ip_network(cidr, strict=False)
    except ValueError:
        return False
