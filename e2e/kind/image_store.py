"""Which images a run leaves in the engine: those that the next run of the same content needs."""

import tomllib
from collections.abc import Collection

from e2e.harness.processes.run import REPOSITORY
from e2e.kind import images, product_images
from e2e.kind.engine import Engine
from e2e.kind.node_image import BASE, BUSYBOX

PRODUCT = ("service", "node")
REGISTRIES = ("", "registry.example.com/")
"""Registries that the documentation names for our images."""

STAGES = "24h"
"""How long images without a name are kept."""


def remove_others(engine: Engine, node: str) -> None:
    """Remove images of earlier contents.

    Of an engine that is not ours only those with our prefix; of ours all others too, and after a
    day those without a name: the stages of our Dockerfile, from which the next build takes what has
    not changed, and what earlier builds have left.

    Args:
        engine: that has them.
        node: name of the node image of this run.
    """
    pattern = [] if engine.own else [f"--filter=reference={images.PREFIX}/*"]
    listed = engine.docker("image", "ls", "--format={{.Repository}}:{{.Tag}}", *pattern).split()
    if old := superseded(listed, [node, *_needed()]):
        engine.docker("image", "rm", "--force", *old)
    if engine.own:
        engine.docker("image", "prune", "--force", f"--filter=until={STAGES}")


def superseded(listed: Collection[str], needed: Collection[str]) -> list[str]:
    """Return the names that are not needed; images without a name have none."""
    return sorted(name for name in set(listed) - set(needed) if not name.endswith(":<none>"))


def _needed() -> list[str]:
    with (REPOSITORY / "pyproject.toml").open("rb") as file:
        version = tomllib.load(file)["project"]["version"]
    ours = [f"{registry}dragoman/{name}:{version}" for registry in REGISTRIES for name in PRODUCT]
    roots = [images.debian_name(part) for part in ("node", "python")]
    return [BUSYBOX, BASE, *roots, product_images.name(), product_images.BASE, *ours]
