"""Cards of a node as our DRA driver publishes them, without its process."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from adapters.dra_driver.devices import card_devices
from adapters.dra_driver.slices import pools, slice_object
from core.hardware.card import Card
from e2e.harness.cluster.api import Api, Object
from e2e.harness.workloads.claims import RESOURCES


@contextmanager
def published(api: Api, node: str, cards: Iterable[Card]) -> Iterator[dict[str, Object]]:
    """The devices of a node by name; its slices are deleted at the end, and the node too."""
    owner = api.get(f"/api/v1/nodes/{node}")["metadata"]["uid"]
    found = [devices for card in cards if (devices := card_devices(card))]
    objects = [
        slice_object(node, owner, pool, name, 1)
        for pool in pools(node, found)
        for name in pool.slices
    ]
    for each in objects:
        api.create(f"{RESOURCES}/resourceslices", each)
    try:
        yield {device["name"]: device for each in found for device in each.devices}
    finally:
        for each in objects:
            api.delete(f"{RESOURCES}/resourceslices/{each['metadata']['name']}")
        api.delete(f"/api/v1/nodes/{node}")
