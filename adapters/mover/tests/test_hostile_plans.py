"""Every field of a plan, with hostile JSON: no error, and no eviction of a pod of another name."""

from collections.abc import Iterator

import msgspec
import pytest
from msgspec import inspect

from adapters.cluster.watch.object_tracker import ObjectTracker
from adapters.mover.plans import Evict, MoverBounds, MoverSettings, MoverState, PlanCache, decide
from adapters.mover.tests.builders import NOW, a_plan, ago
from adapters.tests.hostile_fields import FieldPath, fields, with_value
from adapters.tests.hostile_texts import VALUES
from adapters.wire.decode.partial_decoder import PartialDecoder
from adapters.wire.records.move_plan import MovePlanObject, MovePlanSpec, MovePlanStatus

ENCODED = {"spec": MovePlanSpec, "status": MovePlanStatus}
API_SERVER = ("name", "namespace", "uid", "resourceVersion")
CHECKED = {("metadata",), *(("metadata", each) for each in API_SERVER)}
"""What the API server writes, or has checked."""


def paths() -> Iterator[FieldPath]:
    form = inspect.type_info(MovePlanObject)
    return (path for path in fields(form, ENCODED) if path not in CHECKED)


@pytest.mark.parametrize("path", [*paths()], ids=lambda path: ".".join(map(str, path)))
@pytest.mark.parametrize("step", [1, 2])
def test_a_hostile_field_raises_nothing_and_evicts_only_the_pod_of_the_step(
    path: FieldPath, step: int
) -> None:
    steps = [{"step": 1, "begunAt": ago(hours=2), "mover": "other"}]
    plan = a_plan(2, phase="Evict", step=step, steps=steps)
    for value in VALUES.values():
        plans = PlanCache(lambda _name, _problem: None, lambda: 0.0)
        tracker = ObjectTracker(PartialDecoder(MovePlanObject), plans)

        tracker.upsert(msgspec.Raw(with_value(plan, path, value)))

        state = MoverState(MoverSettings("me", MoverBounds()), plans.evictions(NOW), NOW, 100.0)
        for known in plans.plans.values():
            made = decide(known, state)
            if isinstance(made, Evict):
                assert made.move == known.spec.moves[known.status.step - 1]
                assert made.move.pod in {"pod-1", "pod-2"}
