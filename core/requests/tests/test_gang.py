from core.requests.gang import GangApi, GangRef


def test_a_gang_is_written_as_its_namespace_and_its_name() -> None:
    ref = GangRef(GangApi.KUBERNETES, "ml", "train")

    assert str(ref) == "ml/train"
    assert ref != GangRef(GangApi.KOORDINATOR, "ml", "train")
