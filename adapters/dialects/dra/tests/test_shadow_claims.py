import json
import re

import msgspec

from adapters.dialects.dra.claims import allocated
from adapters.dialects.dra.shadows import ShadowDevice, shadow_claims
from adapters.dialects.dra.tests.builders import a_claim, a_result
from adapters.wire.dra import ResourceClaim

DEVICES = (
    ShadowDevice(("d", "p", "gpu-0"), {"memory": 7}),
    ShadowDevice(("d", "p", "gpu-1")),
)


def test_a_claim_has_all_devices_of_its_node() -> None:
    (made,) = shadow_claims("system", "n1", DEVICES)

    first, second = json.loads(json.dumps(made.status))["allocation"]["devices"]["results"]
    share = first.pop("shareID")
    named = {"request": "others", "driver": "d", "pool": "p"}
    assert first == {**named, "device": "gpu-0", "consumedCapacity": {"memory": "7"}}
    assert second == {**named, "device": "gpu-1"}
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}", share)


def test_equal_claims_have_equal_names_and_other_ones_others() -> None:
    (first,) = shadow_claims("system", "n1", DEVICES)
    (again,) = shadow_claims("system", "n1", DEVICES)
    (other,) = shadow_claims("system", "n1", DEVICES[:1])

    assert first == again
    assert first.name != other.name
    assert first.name.startswith("n1-")


def test_the_name_of_a_long_node_is_cut_where_it_stays_a_name() -> None:
    (made,) = shadow_claims("system", "a" * 199 + ".b" * 20, DEVICES)

    assert re.fullmatch(r"a{199}-[0-9a-f]{16}", made.name)


def test_more_devices_than_a_claim_can_have_are_several_claims() -> None:
    devices = [ShadowDevice(("d", "p", f"gpu-{number}")) for number in range(33)]

    assert len(shadow_claims("system", "n1", devices)) == 2
    assert shadow_claims("system", "n1", ()) == []


def test_a_shadow_claim_holds_nothing_and_an_authors_label_hides_no_claim() -> None:
    (made,) = shadow_claims("system", "n1", DEVICES)
    text = json.dumps({**made.manifest, "status": made.status})
    labelled = a_claim(a_result("gpu-0"))
    metadata = msgspec.structs.replace(labelled.metadata, labels={"dragoman.dev/shadow": "true"})

    assert allocated(msgspec.json.decode(text, type=ResourceClaim)) is None
    assert allocated(msgspec.structs.replace(labelled, metadata=metadata)) is not None
