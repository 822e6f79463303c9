import json
import re

import msgspec

from adapters.dialects.dra.claims import allocated
from adapters.dialects.dra.shadows import ShadowDevice, shadow_claim
from adapters.dialects.dra.tests.builders import a_claim, a_result
from adapters.wire.dra import ResourceClaim

PART = ShadowDevice(("d", "p", "gpu-0"), {"memory": 7})
WHOLE = ShadowDevice(("d", "p", "gpu-1"))


def test_a_claim_has_a_part_of_one_device_or_all_of_it() -> None:
    first, second = (
        json.loads(json.dumps(shadow_claim("system", "n1", each).status))["allocation"]["devices"][
            "results"
        ][0]
        for each in (PART, WHOLE)
    )
    share = first.pop("shareID")
    named = {"request": "others", "driver": "d", "pool": "p"}
    assert first == {**named, "device": "gpu-0", "consumedCapacity": {"memory": "7"}}
    assert second == {**named, "device": "gpu-1"}
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}", share)


def test_equal_claims_have_equal_names_and_other_ones_others() -> None:
    first, again, other = (shadow_claim("system", "n1", each) for each in (PART, PART, WHOLE))

    assert first == again
    assert first.name != other.name
    assert first.name.startswith("n1-")


def test_the_name_of_a_long_node_is_cut_where_it_stays_a_name() -> None:
    made = shadow_claim("system", "a" * 199 + ".b" * 20, PART)

    assert re.fullmatch(r"a{199}-[0-9a-f]{16}", made.name)


def test_a_shadow_claim_holds_nothing_and_an_authors_label_hides_no_claim() -> None:
    made = shadow_claim("system", "n1", WHOLE)
    text = json.dumps({**made.manifest, "status": made.status})
    labelled = a_claim(a_result("gpu-0"))
    metadata = msgspec.structs.replace(labelled.metadata, labels={"dragoman.dev/shadow": "true"})

    assert allocated(msgspec.json.decode(text, type=ResourceClaim)) is None
    assert allocated(msgspec.structs.replace(labelled, metadata=metadata)) is not None
