"""The cluster of the adversary: one control plane; replicas and nodes of each test's own."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace

import pytest

from e2e.adversary.world import World, allow_author, world
from e2e.harness.cluster.control_plane import ControlPlane, start_control_plane
from e2e.harness.processes.run import run
from e2e.harness.schedulers.full_stack import prepare
from e2e.harness.workloads.claims import RESOURCES, a_class

Worlds = Callable[..., AbstractContextManager[World]]


@pytest.fixture(scope="package")
def plane() -> Iterator[ControlPlane]:
    """A control plane with what the service needs; nothing runs."""
    with run() as this:
        # Only one replica answers the webhooks: what passes while it is killed, none has seen.
        values = {
            "webhooks": {"bindings": {"failurePolicy": "Fail"}},
            "dra": {"enabled": True, "arbiter": {"enabled": True}},
        }
        plane = replace(start_control_plane(this), values=values)
        prepare(plane)
        allow_author(plane)
        plane.api.create(f"{RESOURCES}/deviceclasses", a_class())
        yield plane


@pytest.fixture
def worlds(plane: ControlPlane) -> Worlds:
    """Makes worlds, one at a time, of replicas with all rules or without one."""

    @contextmanager
    def made(
        rule: str = "", *, with_claims: bool = True, mirrors: Sequence[str] = ()
    ) -> Iterator[World]:
        with world(plane, rule, with_claims=with_claims, mirrors=mirrors) as found:
            yield found

    return made
