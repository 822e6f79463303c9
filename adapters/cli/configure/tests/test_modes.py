"""Native mode: the scheduler's own device plugin stays, and Dragoman serves the other dialects."""

from typing import Any

import pytest
import yaml

from adapters.cli.configure.command import configure, default, is_alone, own_url, unconfigure
from adapters.cli.configure.options import NAMES, Asked, ConfigureOptions, Scheduler, SchedulerMode
from adapters.cli.input.source import InputError, Source

VOLCANO, KOORD = Scheduler.VOLCANO, Scheduler.KOORD
FAMILIES = {VOLCANO: "volcano.sh/", KOORD: "koordinator.sh/"}
BOTH = pytest.mark.parametrize("scheduler", [VOLCANO, KOORD])
OWN = {"deviceshare.VGPUEnable": True, "deviceshare.SchedulePolicy": "binpack"}


def source(text: str) -> Source:
    return Source("it", text, named=True)


def of_volcano(**arguments: Any) -> Source:
    """A configuration in which deviceshare stands in front of the plugin that has it allocate."""
    shares = {"name": "deviceshare"} | ({"arguments": arguments} if arguments else {})
    tiers = [
        {"plugins": [{"name": "gang"}]},
        {"plugins": [shares, {"name": "predicates"}, {"name": "binpack"}]},
    ]
    return source(yaml.safe_dump({"actions": "allocate", "tiers": tiers}))


def of_koordinator(*, percentage: int | None = None) -> Source:
    plugins = {"filter": {"enabled": [{"name": "DeviceShare"}]}}
    body = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "s", "plugins": plugins}],
    } | ({} if percentage is None else {"percentageOfNodesToScore": percentage})
    return source(yaml.safe_dump(body))


def given(scheduler: Scheduler) -> Source:
    return of_volcano(**OWN) if scheduler is VOLCANO else of_koordinator()


def run(scheduler: Scheduler, text: Source, **options: Any) -> Source:
    return source(configure(scheduler, text, ConfigureOptions(**options)).after)


def native(scheduler: Scheduler, text: Source, **options: Any) -> Source:
    return run(scheduler, text, mode=SchedulerMode.NATIVE, **options)


def plugins(text: Source) -> list[list[Any]]:
    return [tier["plugins"] for tier in yaml.safe_load(text.text)["tiers"]]


def asked(scheduler: Scheduler, text: Source) -> set[str]:
    """The resources about which the scheduler asks Dragoman."""
    body = yaml.safe_load(text.text)
    if scheduler is KOORD:
        asking = [row for row in body["extenders"] if "filterVerb" in row]
        return {each["name"] for row in asking for each in row["managedResources"]}
    rows = [row for tier in plugins(text) for row in tier if row["name"] == "extender"]
    return {name for row in rows for name in row["arguments"]["extender.managedResources"]}


def others(scheduler: Scheduler) -> set[str]:
    """The resources of the dialects that its own plugin does not serve."""
    return {name for name in NAMES if not name.startswith(FAMILIES[scheduler])}


@BOTH
def test_in_native_mode_the_scheduler_asks_about_the_other_dialects_alone(
    scheduler: Scheduler,
) -> None:
    assert asked(scheduler, native(scheduler, given(scheduler))) == others(scheduler)
    assert asked(scheduler, run(scheduler, given(scheduler))) == {*NAMES}


def test_deviceshare_stays_where_it_is_with_its_arguments() -> None:
    first, second = plugins(native(VOLCANO, of_volcano(**OWN)))

    assert second == [
        {"name": "deviceshare", "arguments": OWN},
        {"name": "predicates"},
        {"name": "binpack"},
    ]
    assert [row["name"] for row in first] == ["gang", "extender"]


@pytest.mark.parametrize("before", [None, False, "true"])
def test_deviceshare_is_switched_on_by_a_value_that_volcano_reads(before: object) -> None:
    """Volcano reads a boolean alone; see GetBool of its framework/arguments.go."""
    arguments: dict[str, Any] = {"deviceshare.ScheduleWeight": 3}
    if before is not None:
        arguments["deviceshare.VGPUEnable"] = before
    text = of_volcano(**arguments)

    once = native(VOLCANO, text)

    expected = {"deviceshare.ScheduleWeight": 3, "deviceshare.VGPUEnable": True}
    assert plugins(once)[1][0]["arguments"] == expected
    back = unconfigure(VOLCANO, once)
    assert (yaml.safe_load(back.after), back.notes) == (yaml.safe_load(text.text), [])


def test_deviceshare_without_arguments_gets_them() -> None:
    once = native(VOLCANO, of_volcano())

    assert plugins(once)[1][0] == {
        "name": "deviceshare",
        "arguments": {"deviceshare.VGPUEnable": True},
    }


def test_deviceshare_is_added_beside_the_plugin_that_has_it_allocate() -> None:
    once = native(VOLCANO, default(VOLCANO), ask=Asked.NONE)

    configuration = yaml.safe_load(once.text)["data"]["volcano-scheduler.conf"]
    _, second = plugins(source(configuration))
    assert second[-1] == {"name": "deviceshare", "arguments": {"deviceshare.VGPUEnable": True}}
    assert {"name": "predicates"} in second


def test_koord_scheduler_ignores_what_no_node_states_and_counts_its_own_resources() -> None:
    """Koordinator's webhook adds gpu.shared to every pod; an entry without verbs is not called."""
    shares, uncounted, plain = yaml.safe_load(native(KOORD, of_koordinator()).text)["extenders"]

    assert uncounted == {
        "urlPrefix": shares["urlPrefix"],
        "managedResources": [{"name": "koordinator.sh/gpu.shared", "ignoredByScheduler": True}],
    }
    assert "bindVerb" not in shares | plain


def test_the_older_name_of_native_mode_means_the_same() -> None:
    once = native(KOORD, of_koordinator())

    assert run(KOORD, of_koordinator(), keep_deviceshare=True).text == once.text
    assert (
        run(KOORD, once, keep_deviceshare=False).text
        == run(KOORD, once, mode=SchedulerMode.EXTENDER).text
    )


def test_koord_scheduler_may_ask_about_its_own_pods_too_as_earlier_versions_had_it() -> None:
    """Where no mirrored records show DeviceShare what others hold."""
    once = native(KOORD, of_koordinator(), ask=Asked.ALL)
    of_before = run(KOORD, of_koordinator(), mode=SchedulerMode.EXTENDER).text.replace(
        "  bindVerb: bind # the Binding writes the cards too, in one step\n", ""
    )
    shares, _ = made = yaml.safe_load(once.text)["extenders"]

    assert made == yaml.safe_load(of_before)["extenders"]
    assert asked(KOORD, once) == {*NAMES}
    shares["weight"] = 9
    given_before = source(yaml.safe_dump(yaml.safe_load(once.text) | {"extenders": made}))
    assert run(KOORD, given_before).text == given_before.text
    assert configure(KOORD, once, ConfigureOptions(mode=SchedulerMode.NATIVE)).notes == []

    others_alone = native(KOORD, given_before, ask=Asked.OTHERS)
    assert asked(KOORD, others_alone) == others(KOORD)
    weights = [row.get("weight") for row in yaml.safe_load(others_alone.text)["extenders"]]
    assert weights == [9, None, 5]


@BOTH
@pytest.mark.parametrize("more", [{}, {"ask": Asked.NONE}])
def test_a_second_run_changes_nothing_whether_it_names_the_mode_or_not(
    scheduler: Scheduler, more: dict[str, Asked]
) -> None:
    once = native(scheduler, given(scheduler), **more)

    assert run(scheduler, once).text == once.text
    assert native(scheduler, once).text == once.text
    assert native(scheduler, once, **more).text == once.text


@BOTH
def test_each_mode_leads_to_the_other_and_back(scheduler: Scheduler) -> None:
    here, there = native(scheduler, given(scheduler)), run(scheduler, given(scheduler))

    changed = run(scheduler, here, mode=SchedulerMode.EXTENDER)
    back = native(scheduler, changed)

    assert yaml.safe_load(changed.text) == yaml.safe_load(there.text)
    assert yaml.safe_load(back.text) == yaml.safe_load(here.text)
    undone = unconfigure(scheduler, back)
    assert undone.notes == []
    assert yaml.safe_load(undone.after) in (
        yaml.safe_load(given(scheduler).text),
        yaml.safe_load(given(scheduler).text) | {"extenders": []},
    )


@BOTH
def test_without_the_other_dialects_the_scheduler_asks_nothing_until_it_is_to(
    scheduler: Scheduler,
) -> None:
    address = {"url": "http://10.0.0.1:9595"}
    once = native(scheduler, given(scheduler), **address)

    alone = run(scheduler, once, ask=Asked.NONE)

    assert asked(scheduler, alone) == set()
    assert own_url(scheduler, alone) is None
    assert is_alone(scheduler, alone)
    assert not is_alone(scheduler, once)
    again = run(scheduler, alone, ask=Asked.OTHERS, **address)
    assert yaml.safe_load(again.text) == yaml.safe_load(once.text)
    assert asked(scheduler, run(scheduler, alone, mode=SchedulerMode.EXTENDER)) == {*NAMES}


@pytest.mark.parametrize("before", [None, 30])
def test_without_the_other_dialects_koord_scheduler_looks_at_as_many_nodes_as_before(
    before: int | None,
) -> None:
    text = of_koordinator(percentage=before)

    alone = native(KOORD, native(KOORD, text), ask=Asked.NONE)

    assert yaml.safe_load(alone.text).get("percentageOfNodesToScore") == before


@BOTH
def test_undo_restores_what_native_mode_found(scheduler: Scheduler) -> None:
    text = given(scheduler)
    for more in ({}, {"ask": Asked.NONE}):
        back = unconfigure(scheduler, native(scheduler, text, **more))

        assert yaml.safe_load(back.after) == yaml.safe_load(text.text)
        assert back.notes == []
        assert "dragoman" not in back.after


@BOTH
def test_native_mode_says_what_the_plugin_does_not_see(scheduler: Scheduler) -> None:
    options = ConfigureOptions(mode=SchedulerMode.NATIVE)

    (note,) = configure(scheduler, given(scheduler), options).notes

    assert "mirrored records" in note


WITHOUT_PREDICATES = source("tiers:\n- plugins:\n  - name: gang\n")


@pytest.mark.parametrize(
    ("scheduler", "text", "options", "expected"),
    [
        (
            VOLCANO,
            WITHOUT_PREDICATES,
            {"mode": SchedulerMode.NATIVE},
            "needs the plugin predicates, in which Volcano has deviceshare allocate; add it",
        ),
        (
            VOLCANO,
            of_volcano(**{"deviceshare.GPUSharingEnable": True}),
            {"mode": SchedulerMode.NATIVE},
            "deviceshare.GPUSharingEnable: True excludes deviceshare.VGPUEnable",
        ),
        (
            VOLCANO,
            of_volcano(),
            {"keep_deviceshare": True},
            "--keep-deviceshare: is not for vc-scheduler: give --mode native or extender instead",
        ),
        (
            VOLCANO,
            of_volcano(),
            {"ask": Asked.NONE},
            "--ask: 'none' is for --mode native: as extender Dragoman serves all dialects",
        ),
        (
            VOLCANO,
            of_volcano(),
            {"mode": SchedulerMode.NATIVE, "ask": Asked.NONE, "plain_pods": True},
            "--plain-pods: is for an extender, and there is none with --ask none",
        ),
        (
            KOORD,
            of_koordinator(),
            {"mode": SchedulerMode.NATIVE, "ask": Asked.NONE, "url": "http://10.0.0.1:1"},
            "--url: is for an extender, and there is none with --ask none",
        ),
        (
            KOORD,
            source(of_koordinator().text.replace("DeviceShare", "Reservation")),
            {"mode": SchedulerMode.NATIVE},
            "--mode native: no profile enables DeviceShare; enable it, or give --mode extender",
        ),
        (
            VOLCANO,
            of_volcano(),
            {"mode": SchedulerMode.NATIVE, "ask": Asked.ALL},
            "--ask: 'all' is not for vc-scheduler",
        ),
        (
            KOORD,
            of_koordinator(),
            {"mode": SchedulerMode.EXTENDER, "keep_deviceshare": True},
            "--keep-deviceshare: means --mode native; leave one of the two out",
        ),
        (
            Scheduler.KUBE,
            default(Scheduler.KUBE),
            {"mode": SchedulerMode.NATIVE},
            "--mode: 'native' is not for kube-scheduler, which has no device plugin",
        ),
        (
            Scheduler.KUBE,
            default(Scheduler.KUBE),
            {"ask": Asked.OTHERS},
            "--ask: is for --mode native of other schedulers",
        ),
    ],
)
def test_what_cannot_work_is_refused_with_field_value_and_remedy(
    scheduler: Scheduler, text: Source, options: dict[str, Any], expected: str
) -> None:
    with pytest.raises(InputError) as refused:
        configure(scheduler, text, ConfigureOptions(**options))

    assert expected in str(refused.value)
