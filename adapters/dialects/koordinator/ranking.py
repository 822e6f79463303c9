"""Translates Koordinator's scoring into an order of nodes and cards."""

from adapters.dialects.dialect import Defaults, SchedulingPolicy
from adapters.dialects.koordinator.settings import KoordinatorScheduling
from core.requests.request import CardKey, NodeKey, Ranking


def ranking(scheduling: KoordinatorScheduling, defaults: Defaults) -> Ranking:
    """The order; what the operator sets for all dialects wins."""
    cards = defaults.card_policy or scheduling.policy
    nodes = defaults.node_policy or scheduling.policy
    node_keys = (NodeKey.FULLEST if nodes is SchedulingPolicy.BINPACK else NodeKey.EMPTIEST,)
    return Ranking(
        cards=(
            CardKey.FULLEST if cards is SchedulingPolicy.BINPACK else CardKey.EMPTIEST,
            CardKey.LOW_INDEX,
        ),
        nodes=(NodeKey.LINKS, *node_keys) if defaults.topology_aware else node_keys,
        weights=scheduling.weights,
    )
