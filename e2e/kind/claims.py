"""The driver and the arbiter of claims, as docs/reference/dialects/dra-driver.md enables them."""

from e2e.kind.documentation import blocks
from e2e.kind.shell import eventually, get, sh

_OFF = ",".join(f"dra.{each}enabled=false" for each in ("", "arbiter.", "driver."))
_UPGRADE = "helm upgrade dragoman charts/dragoman -n dragoman-system --reuse-values"


def enable_claims(nodes: int) -> str:
    """Turn claims on, and wait for a slice of each node; the command of the page's example."""
    (block,) = blocks("docs/reference/dialects/dra-driver.md", "Turn it on")
    enable, example = block.splitlines()
    sh(f"{enable} --wait --timeout=4m", timeout=300)
    eventually(60, lambda: len(get("resourceslices")) == nodes)
    return example


def disable_claims() -> None:
    """Turn claims off, and wait until the slices of all nodes are gone."""
    sh(f"{_UPGRADE} --set {_OFF} --wait --timeout=4m", timeout=300)
    eventually(90, lambda: get("resourceslices") == [])
