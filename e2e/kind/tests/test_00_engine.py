"""What the runs of ``make e2e-kind`` leave alone."""

from pathlib import Path

import pytest

from e2e.harness.cluster.target import KIND
from e2e.kind.cluster import ClusterError, cluster
from e2e.kind.engine import Engine
from e2e.kind.image_store import remove_others
from e2e.kind.images import PREFIX
from e2e.kind.node_image import BUSYBOX, node_image
from e2e.kind.shell import get


def test_a_cluster_of_the_same_name_that_others_made_is_not_deleted(tmp_path: Path) -> None:
    engine = Engine()
    label = f"--label=io.x-k8s.kind.cluster={KIND}"
    foreign = engine.docker("run", "--detach", label, BUSYBOX).strip()
    try:
        with (
            pytest.raises(ClusterError, match="that make e2e-kind did not create"),
            cluster(engine, "unused", tmp_path / "kubeconfig"),
        ):
            pass

        state = engine.docker("inspect", "--format={{.State.Running}}", foreign)
        assert state.strip() == "true"
        assert len(get("nodes")) == 4
    finally:
        engine.docker("rm", "--force", foreign)


def test_images_of_earlier_contents_are_removed_and_others_images_are_not() -> None:
    engine = Engine()
    ours, foreign = f"{PREFIX}/node:earlier", "registry.example.com/foreign:1"
    for name in (ours, foreign):
        engine.docker("tag", BUSYBOX, name)
    try:
        current = node_image(engine)

        remove_others(engine, current)

        assert not engine.has(ours)
        assert engine.has(foreign)
        assert engine.has(current)
        assert engine.has(BUSYBOX)
    finally:
        engine.docker("image", "rm", "--force", foreign)
