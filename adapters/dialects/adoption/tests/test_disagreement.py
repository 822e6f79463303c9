"""The record on a bound pod beside its request."""

import pytest

from adapters.dialects.adoption.disagreement import disagreements
from adapters.dialects.allocation_record import KEY, encode
from adapters.dialects.tests.builders import ALL, NODE, bound
from adapters.wire.kube import Amount
from core.hardware.quantity import MIB
from core.requests.grant import Grant

SHARE: dict[str, Amount] = {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 3072}
LISTED = "volcano.sh/vgpu-ids-new"


@pytest.mark.parametrize(
    ("record", "found"),
    [
        ({}, ()),
        ({LISTED: "u1,NVIDIA,3072,0:"}, ()),
        ({LISTED: "gone,NVIDIA,1,0:"}, ()),
        ({LISTED: "?"}, ()),
        (
            {LISTED: "u1,NVIDIA,1024,50:"},
            ("its record gives c 1.0 GiB and 50% of u1, its request 3.0 GiB",),
        ),
        (
            {KEY: encode((Grant("x", "u1", MIB, 0),))},
            ("its record names container 'x', which requests no share",),
        ),
    ],
)
def test_a_record_is_compared_with_the_request(
    record: dict[str, str], found: tuple[str, ...]
) -> None:
    assert disagreements(bound(SHARE, record), NODE, ALL) == found


def test_a_pod_of_no_dialect_and_one_that_names_no_containers_are_not_compared() -> None:
    assert disagreements(bound({"cpu": 1}, {LISTED: "u1,NVIDIA,1,0:"}), NODE, ALL) == ()
    for_the_pod = {KEY: encode((Grant("", "u1", MIB, 0),))}
    assert disagreements(bound(SHARE, for_the_pod), NODE, ALL) == ()
