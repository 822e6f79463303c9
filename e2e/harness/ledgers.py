"""The kind of Dragoman's records, made known to a control plane."""

import yaml

from e2e.harness.api import ApiError
from e2e.harness.control_plane import ControlPlane
from e2e.harness.run import REPOSITORY
from e2e.harness.waiting import within

PATH = "/apis/dragoman.dev/v1alpha1/nodeledgers"


def define_ledgers(plane: ControlPlane) -> None:
    """Define it, and wait until it is served."""
    definition = yaml.safe_load((REPOSITORY / "configs/crd/nodeledgers.yaml").read_text())
    plane.api.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)

    def is_served() -> bool:
        try:
            return "items" in plane.api.get(PATH)
        except ApiError:
            return False

    within(10, is_served)
