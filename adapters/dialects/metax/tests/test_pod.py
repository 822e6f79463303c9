"""The resources of a pod: MetaX sGPU manual, table 7.7, and HAMi's own rules."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.dialects.dialect import DialectError
from adapters.dialects.metax.tests.builders import METAX, a_container, a_pod, read, request_or_error
from adapters.wire.kube import Amount
from core.hardware.card import Level, Mode
from core.hardware.quantity import GIB, MIB
from core.requests.request import ContainerRequest, Phase

Limits = Mapping[str, Amount]


def the_request(limits: Limits) -> ContainerRequest:
    (wanted,) = read(a_pod(limits)).containers
    return wanted


def rejection(limits: Limits) -> DialectError:
    with pytest.raises(DialectError) as rejected:
        read(a_pod(limits))
    return rejected.value


@pytest.mark.parametrize("count", [1, "1", 4, "4", "1k"])
def test_sgpu_counts_cards_as_number_or_text(count: Amount) -> None:
    assert the_request({"sgpu": count}).count == (1000 if count == "1k" else int(count))


@pytest.mark.parametrize("count", [0, -1, "0", 2**31, "x", "500m", 1.5])
def test_an_invalid_count_is_rejected_and_never_ignored(count: Amount) -> None:
    error = rejection({"sgpu": count})

    assert error.field == "spec.containers[main].resources.limits[metax-tech.com/sgpu]"
    assert "must be" in error.problem


@pytest.mark.parametrize("vcore", [1, 60, 99, "60"])
def test_vcore_is_percent_of_each_card(vcore: Amount) -> None:
    wanted = the_request({"sgpu": 2, "vcore": vcore, "vmemory": 1})

    assert (wanted.compute, wanted.exclusive, wanted.linked) == (int(vcore), False, False)


@pytest.mark.parametrize("limits", [{"sgpu": 1}, {"sgpu": 1, "vcore": 100, "vmemory": 4}])
def test_full_compute_stated_or_not_means_exclusive_and_linked(limits: Limits) -> None:
    wanted = the_request(limits)

    assert (wanted.compute, wanted.exclusive, wanted.linked) == (100, True, True)


@pytest.mark.parametrize("vcore", [0, 101, 200, -5, 3_000_000_000, "all"])
def test_vcore_outside_1_to_100_is_rejected(vcore: Amount) -> None:
    assert "1 to 100" in rejection({"sgpu": 1, "vcore": vcore}).problem


@pytest.mark.parametrize(
    ("vmemory", "mebibytes"),
    [
        (4, 4096),
        ("4", 4096),
        ("4Gi", 4096),
        ("2048Mi", 2048),
        ("1G", 953),
        ("1Ti", 1_048_576),
        ("16Gi", 16384),
        ("1Mi", 1),
        ("1048577Ki", 1024),
        ("1e9", 953),
        (4.0, 4096),
    ],
)
def test_vmemory_is_in_gib_unless_it_has_a_unit(vmemory: Amount, mebibytes: int) -> None:
    wanted = the_request({"sgpu": 1, "vcore": 50, "vmemory": vmemory})

    assert (wanted.memory, wanted.memory_percent) == (mebibytes * MIB, None)


def test_absent_vmemory_means_the_whole_card() -> None:
    wanted = the_request({"sgpu": 1, "vcore": 50})

    assert wanted.memory_percent == 100
    assert wanted.memory_on(64 * GIB + 1) == 64 * GIB


@pytest.mark.parametrize("vmemory", [0, "0", "0Gi", "512Ki", "100k", "1023Ki", "1e3", -4, "-4Gi"])
def test_less_than_a_mib_is_rejected_and_never_means_the_whole_card(vmemory: Amount) -> None:
    assert "1Mi" in rejection({"sgpu": 1, "vcore": 50, "vmemory": vmemory}).problem


@pytest.mark.parametrize("vmemory", [2_100_001, 2_097_152, "9Ei", "1e50"])
def test_more_memory_than_a_record_can_contain_is_rejected(vmemory: Amount) -> None:
    assert "2147483647Mi" in rejection({"sgpu": 1, "vmemory": vmemory}).problem


@pytest.mark.parametrize("vmemory", ["4GB", "four", "", 0.5, "1.5", "0x10"])
def test_an_invalid_amount_is_rejected(vmemory: Amount) -> None:
    assert "must be a" in rejection({"sgpu": 1, "vmemory": vmemory}).problem


def test_rounding_is_noted() -> None:
    request = read(a_pod({"sgpu": 1, "vcore": 50, "vmemory": "1G"}))

    assert request.notes == (
        "spec.containers[main].resources.limits[metax-tech.com/vmemory]: "
        "1G is rounded down to 953 MiB",
    )


@pytest.mark.parametrize("resource", ["vcore", "vmemory"])
def test_a_share_without_a_count_is_rejected_with_the_missing_resource(resource: str) -> None:
    error = rejection({resource: 4})

    assert error.field.endswith(f"[metax-tech.com/{resource}]")
    assert error.value == 4
    assert "metax-tech.com/sgpu" in error.problem


def test_a_request_without_a_limit_counts_too() -> None:
    pod = a_pod(a_container(requests={"sgpu": 1, "vcore": 20, "vmemory": 1}))

    assert read(pod).containers == (ContainerRequest("main", 1, memory=GIB, compute=20, step=MIB),)


def test_a_limit_that_differs_from_the_request_is_rejected() -> None:
    with pytest.raises(DialectError, match="must equal the request"):
        read(a_pod(a_container({"sgpu": 2}, requests={"sgpu": 1})))


def test_every_container_has_its_own_request_in_start_order() -> None:
    pod = a_pod(
        a_container({"sgpu": 1, "vcore": 10, "vmemory": 1}, "left"),
        a_container({}, "plain"),
        a_container({"sgpu": 2}, "right"),
        init=[
            a_container({"sgpu": 1, "vcore": 20, "vmemory": 1}, "prepare"),
            a_container({"sgpu": 1, "vcore": 30, "vmemory": 1}, "side", sidecar=True),
        ],
    )

    assert [(wanted.name, wanted.phase) for wanted in read(pod).containers] == [
        ("prepare", Phase.INIT),
        ("side", Phase.SIDECAR),
        ("left", Phase.MAIN),
        ("right", Phase.MAIN),
    ]


def test_a_request_has_the_pods_name_and_uid() -> None:
    pod = a_pod({"sgpu": 1}, name="mine", priority=7)

    request = read(pod)

    assert (request.uid, request.pod, request.priority) == ("uid-mine", "default/mine", 7)
    assert (request.dialect, request.vendor) == ("metax", None)
    assert request.topology.levels == (Level.LINK,)


def test_a_pod_matches_when_it_names_any_of_the_resources() -> None:
    for resource in ("sgpu", "vcore", "vmemory", "gpu"):
        assert METAX.matches(a_pod({resource: 0}))
    assert not METAX.matches(a_pod(a_container()))


def test_a_whole_card_is_all_of_it() -> None:
    request = read(a_pod({"gpu": 2}))

    assert request.modes == {Mode.WHOLE}
    assert request.containers == (
        ContainerRequest("main", 2, memory_percent=100, compute=100, exclusive=True, step=MIB),
    )


@pytest.mark.parametrize("count", [0, -1, "x"])
def test_an_invalid_whole_card_count_is_rejected(count: Amount) -> None:
    assert "must be" in rejection({"gpu": count}).problem


def test_shares_and_whole_cards_in_one_pod_are_rejected() -> None:
    both = a_pod(a_container({"gpu": 1}, "left"), a_container({"sgpu": 1}, "right"))

    with pytest.raises(DialectError, match="shares or whole cards"):
        read(both)
    assert "shares or whole cards" in rejection({"gpu": 1, "sgpu": 1}).problem


@pytest.mark.parametrize("key", ["use-gpuuuid", "nouse-gpuuuid"])
def test_whole_cards_cannot_be_chosen_by_uuid(key: str) -> None:
    with pytest.raises(DialectError, match="no uuid"):
        read(a_pod({"gpu": 1}, annotations={f"metax-tech.com/{key}": "GPU-1"}))


def test_settings_without_effect_on_whole_cards_are_noted() -> None:
    texts = {"metax-tech.com/sgpu-app-class": "online", "metax-tech.com/use-gpuuuid": " "}

    request = read(a_pod({"gpu": 1}, annotations=texts))

    assert request.notes == (
        "metadata.annotations[metax-tech.com/sgpu-app-class]: online is not used for whole cards",
    )


def test_totals_count_cards_times_shares() -> None:
    online = a_pod(
        {"sgpu": 1, "vmemory": 4}, annotations={"metax-tech.com/sgpu-app-class": "online"}
    )

    shares = read(a_pod({"sgpu": 2, "vcore": 30, "vmemory": 4})).totals()
    whole = read(a_pod({"gpu": 2})).totals()

    assert (shares.cards, shares.compute, shares.memory) == (2, 60, 8 * GIB)
    assert (whole.cards, whole.compute, whole.memory_percent) == (2, 200, 200)
    assert read(online).totals().compute == 0


amounts = st.integers(-5, 2**33) | st.text("0123456789.eEKMGTimk+- ", max_size=8) | st.floats()


@given(st.dictionaries(st.sampled_from(["sgpu", "vcore", "vmemory", "gpu"]), amounts, min_size=1))
def test_any_amounts_give_a_sound_request_or_a_dialect_error(limits: dict[str, Amount]) -> None:
    found = request_or_error(a_pod(limits))

    if isinstance(found, DialectError):
        assert found.field.startswith("spec.containers[main].resources")
    else:
        (wanted,) = found.containers
        assert wanted.count >= 1
        assert 1 <= wanted.compute <= 100
        assert wanted.memory is None or (wanted.memory >= MIB and wanted.memory % MIB == 0)
