"""ResourceClaims of cards that the test publishes as HAMi's driver does, which needs real ones.

No driver prepares these claims, so their pods are bound and their containers wait.
"""

from collections.abc import Sequence

from e2e.harness.cluster.api import Api
from e2e.harness.workloads.claims import RESOURCES, a_card, a_class, a_slice
from e2e.kind import cards
from e2e.kind.shell import sh

_UPGRADE = "helm upgrade dragoman charts/dragoman -n dragoman-system --reuse-values"


def enable_claims(api: Api, nodes: Sequence[str]) -> None:
    """Turn claims and the arbiter on, and publish the cards of some nodes."""
    _switch("true")
    api.create(f"{RESOURCES}/deviceclasses", a_class())
    memory = f"{cards.MEMORY_MIB}Mi"
    limits = {"default": memory, "validRange": {"min": "1Mi", "max": memory, "step": "1Mi"}}
    for node in nodes:
        devices = [a_card(index, cards.uuid(node, index)) for index in range(cards.CARDS)]
        for device in devices:
            device["capacity"]["memory"] = {"value": memory, "requestPolicy": limits}
        api.create(f"{RESOURCES}/resourceslices", a_slice(node, devices))


def disable_claims(api: Api) -> None:
    """Turn claims off, and remove the cards."""
    api.delete(f"{RESOURCES}/resourceslices")
    api.delete(f"{RESOURCES}/deviceclasses")
    _switch("false")


def _switch(value: str) -> None:
    words = ",".join(f"dra.{each}enabled={value}" for each in ("", "arbiter."))
    sh(f"{_UPGRADE} --set {words} --wait --timeout=4m", timeout=300)
