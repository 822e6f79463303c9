"""Pods with only resources of device plugins: the scheduler counts, Dragoman may be away."""

from typing import Any

import pytest
import yaml

from adapters.cli.configure.command import configure, own_url, unconfigure
from adapters.cli.configure.options import NAMES, ConfigureOptions, Scheduler
from adapters.cli.input.source import InputError, Source

PLAIN = [{"name": "nvidia.com/gpu"}, {"name": "metax-tech.com/gpu"}]
OTHER = {"urlPrefix": "http://other/filter", "managedResources": [{"name": "example.com/fpga"}]}
SECURE = {"enableHTTPS": True, "tlsConfig": {"caFile": "/ca.crt"}}
BOTH = pytest.mark.parametrize("scheduler", [Scheduler.KUBE, Scheduler.KOORD])


def given(*extenders: Any, enabled: tuple[str, ...] = ()) -> Source:
    plugins = {"filter": {"enabled": [{"name": each} for each in enabled]}}
    body = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "s", "plugins": plugins}],
        "extenders": list(extenders),
    }
    return source(yaml.safe_dump(body))


def source(text: str) -> Source:
    return Source("it", text, named=True)


def extenders(scheduler: Scheduler, text: Source, **options: Any) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = yaml.safe_load(
        configure(scheduler, text, ConfigureOptions(**options)).after
    )["extenders"]
    return made


def one_extender_of_before(**more: Any) -> dict[str, Any]:
    """What earlier versions wrote: all resources, ignored by the scheduler, in one extender."""
    return {
        "urlPrefix": "http://10.0.0.1:9595/extender",
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "preemptVerb": "preempt",
        "bindVerb": "bind",
        "weight": 5,
        "nodeCacheCapable": True,
        "httpTimeout": "5s",
        "ignorable": False,
        "managedResources": [{"name": name, "ignoredByScheduler": True} for name in NAMES],
        **more,
    }


@BOTH
@pytest.mark.parametrize("preemption", [False, True])
def test_plain_resources_are_counted_and_need_no_answer_of_dragoman(
    scheduler: Scheduler, preemption: bool
) -> None:
    shares, plain = extenders(scheduler, given(), preemption=preemption)

    assert plain == {
        "urlPrefix": shares["urlPrefix"],
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "preemptVerb": "preempt",
        "weight": 5,
        "nodeCacheCapable": True,
        "httpTimeout": "5s",
        "ignorable": True,
        "managedResources": PLAIN,
    }


@BOTH
def test_one_extender_binds_and_none_shares_a_resource_with_the_other(scheduler: Scheduler) -> None:
    shares, plain = extenders(scheduler, given())

    assert (shares["ignorable"], shares["bindVerb"]) == (False, "bind")
    managed = [row["name"] for each in (shares, plain) for row in each["managedResources"]]
    assert sorted(managed) == sorted(NAMES)


def test_deviceshare_may_stay_and_then_no_extender_binds() -> None:
    text = given(enabled=("DeviceShare",))
    once = configure(Scheduler.KOORD, text, ConfigureOptions(keep_deviceshare=True)).after

    again = configure(Scheduler.KOORD, source(once), ConfigureOptions()).after

    assert again == once
    assert not any("bindVerb" in each for each in yaml.safe_load(once)["extenders"])


@BOTH
def test_the_one_extender_of_before_becomes_both_in_its_place(scheduler: Scheduler) -> None:
    chosen = {"weight": 9, "httpTimeout": "20s", **SECURE}
    own = one_extender_of_before(urlPrefix="https://10.0.0.1:9443/extender", **chosen)
    own["managedResources"].append({"name": "example.com/mine"})

    shares, plain, other = extenders(scheduler, given(own, OTHER))

    assert other == OTHER
    assert {key: shares[key] for key in chosen} == chosen
    assert {key: plain[key] for key in chosen} == chosen
    assert [each["urlPrefix"] for each in (shares, plain)] == [own["urlPrefix"]] * 2
    assert shares["managedResources"][-1] == {"name": "example.com/mine"}
    assert plain["managedResources"] == PLAIN


@BOTH
def test_an_upgraded_configuration_is_as_a_new_one(scheduler: Scheduler) -> None:
    new = extenders(scheduler, given(), url="http://10.0.0.1:9595")

    assert extenders(scheduler, given(one_extender_of_before())) == new


@BOTH
def test_whether_shares_are_counted_stays_through_the_upgrade(scheduler: Scheduler) -> None:
    own = one_extender_of_before(managedResources=[{"name": name} for name in NAMES])

    shares, _ = extenders(scheduler, given(own))

    assert {"name": "volcano.sh/vgpu-number"} in shares["managedResources"]


@BOTH
def test_an_extender_that_was_removed_by_hand_comes_back_beside_the_other(
    scheduler: Scheduler,
) -> None:
    shares, plain = extenders(scheduler, given(), url="http://10.0.0.1:9595")

    assert extenders(scheduler, given(shares, OTHER)) == [shares, plain, OTHER]
    assert extenders(scheduler, given(OTHER, plain)) == [OTHER, shares, plain]


@BOTH
def test_the_order_of_the_two_is_the_users(scheduler: Scheduler) -> None:
    shares, plain = extenders(scheduler, given())
    text = given(plain, OTHER, shares)

    once = configure(scheduler, text, ConfigureOptions()).after

    assert yaml.safe_load(once)["extenders"] == [plain, OTHER, shares]


@BOTH
def test_a_second_extender_of_ours_for_the_same_resources_goes(scheduler: Scheduler) -> None:
    shares, plain = extenders(scheduler, given())

    assert extenders(scheduler, given(shares, plain, shares, plain)) == [shares, plain]


@BOTH
def test_an_address_is_written_to_both(scheduler: Scheduler) -> None:
    once = configure(scheduler, given(), ConfigureOptions()).after

    again = configure(scheduler, source(once), ConfigureOptions(url="http://10.0.0.1:9595")).after

    expected = "http://10.0.0.1:9595/extender"
    assert [row["urlPrefix"] for row in yaml.safe_load(again)["extenders"]] == [expected] * 2
    assert own_url(scheduler, source(again)) == expected


@BOTH
def test_undo_removes_both(scheduler: Scheduler) -> None:
    text = given(OTHER)
    once = configure(scheduler, text, ConfigureOptions()).after

    back = unconfigure(scheduler, source(once))

    assert yaml.safe_load(back.after) == yaml.safe_load(text.text)


@BOTH
def test_undo_removes_the_one_extender_of_before(scheduler: Scheduler) -> None:
    back = unconfigure(scheduler, given(OTHER, one_extender_of_before()))

    assert yaml.safe_load(back.after)["extenders"] == [OTHER]


@BOTH
def test_another_extender_for_a_plain_resource_excludes_dragoman(scheduler: Scheduler) -> None:
    rival = {"urlPrefix": "http://hami", "managedResources": PLAIN[1:]}

    with pytest.raises(InputError, match=r"'metax-tech\.com/gpu' excludes Dragoman"):
        extenders(scheduler, given(rival))


def volcanos(text: Source, **options: Any) -> set[str]:
    """The resources about which vc-scheduler asks."""
    made = yaml.safe_load(configure(Scheduler.VOLCANO, text, ConfigureOptions(**options)).after)
    (own,) = (each for each in made["tiers"][0]["plugins"] if each["name"] == "extender")
    return set(own["arguments"]["extender.managedResources"])


def test_vc_scheduler_which_has_one_extender_can_leave_plain_pods_alone() -> None:
    """Such a pod then never waits for Dragoman; see IsInterested in Volcano's extender.go."""
    text = source("tiers:\n- plugins:\n  - name: gang\n")
    plain = {each["name"] for each in PLAIN}

    assert volcanos(text) == {*NAMES}
    assert volcanos(text, plain_pods=False) == {*NAMES} - plain


def test_whether_vc_scheduler_asks_about_plain_pods_stays_until_the_option_says_otherwise() -> None:
    text = source("tiers:\n- plugins:\n  - name: gang\n")
    without = configure(Scheduler.VOLCANO, text, ConfigureOptions(plain_pods=False)).after

    again = configure(Scheduler.VOLCANO, source(without), ConfigureOptions()).after

    assert again == without
    assert volcanos(source(without), plain_pods=True) == {*NAMES}


@BOTH
def test_the_option_is_for_vc_scheduler_alone(scheduler: Scheduler) -> None:
    with pytest.raises(InputError, match="--plain-pods: is for vc-scheduler"):
        extenders(scheduler, given(), plain_pods=False)
