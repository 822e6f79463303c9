"""A real API server for the tests that want one."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from adapters.stores.kubernetes import COLLECTION

CRD = Path(__file__).parents[3] / "configs/crd/nodeledgers.yaml"


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    """A control plane of its own that knows NodeLedgers."""
    reason = "needs the test bed's harness"
    control_plane = pytest.importorskip("e2e.harness.cluster.control_plane", reason=reason)
    waiting = pytest.importorskip("e2e.harness.processes.waiting", reason=reason)
    with pytest.importorskip("e2e.harness.processes.run", reason=reason).run() as run:
        plane = control_plane.start_control_plane(run)
        crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        plane.api.create(crds, yaml.safe_load(CRD.read_text()))
        waiting.within(60, lambda: is_served(plane.api))
        yield plane


def is_served(api: Any) -> bool:
    try:
        api.get(COLLECTION)
    except RuntimeError:
        return False
    return True
