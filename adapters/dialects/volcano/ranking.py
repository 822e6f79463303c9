"""Translates Volcano's settings into an order of cards and nodes."""

from adapters.dialects.dialect import Defaults, SchedulingPolicy
from adapters.dialects.volcano.settings import VolcanoScheduling
from core.requests.request import CardKey, NodeKey, Ranking, Weights

# pkg/scheduler/api/devices/nvidia/vgpu/utils.go:529-561
_CARDS = {
    SchedulingPolicy.BINPACK: (CardKey.MOST_MEMORY_USED, CardKey.LOW_INDEX),
    SchedulingPolicy.SPREAD: (CardKey.FEWEST_SHARERS, CardKey.LOW_INDEX),
    None: (CardKey.HIGH_INDEX,),
}

# pkg/scheduler/api/devices/nvidia/vgpu/utils.go:563-576, where spread is always 0
_NODES = {
    SchedulingPolicy.BINPACK: (NodeKey.CHOSEN_FULLEST,),
    SchedulingPolicy.SPREAD: (NodeKey.EMPTIEST,),
    None: (),
}


def ranking(scheduling: VolcanoScheduling, defaults: Defaults) -> Ranking:
    """The order of cards and nodes for every pod; no annotation of a pod changes it."""
    voted = scheduling.policy if scheduling.weight else None
    return Ranking(
        cards=_CARDS[defaults.card_policy or scheduling.policy],
        nodes=_NODES[defaults.node_policy or voted],
        weights=Weights(slots=0, compute=0, memory=1),
    )
