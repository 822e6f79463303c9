"""Any configuration: a second run changes nothing, undo restores, and the rest stays."""

import contextlib
from typing import Any

import yaml
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from adapters.cli.configure.command import configure, unconfigure
from adapters.cli.configure.extender import PATH
from adapters.cli.configure.options import Asked, ConfigureOptions, Scheduler, SchedulerMode
from adapters.cli.input.source import InputError, Source

few = settings(max_examples=25, phases=[Phase.generate], deadline=None)
"""A run parses some ten documents in pure Python; to shrink one takes minutes."""


def reads_alike(word: str) -> bool:
    """Whether a word that PyYAML writes is the same word in YAML 1.2, which ``configure`` reads.

    ``08``, ``0o17`` and ``1e100`` are numbers in 1.2 only, so PyYAML writes them without quotes.
    """
    return bool(YAML(typ="safe", pure=True).load(yaml.safe_dump([word])) == [word])


words = st.text("abcdefghijklmnopqrstuvwxyz:#-'\" \n{}[]&*!|>%@,0123456789", max_size=12).filter(
    reads_alike
)
"""Without "?": YAML 1.2 allows it in a plain word of a flow mapping, but PyYAML cannot read it."""
scalars = st.none() | st.booleans() | st.integers(-(10**6), 10**6) | words
trees = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)
names = st.sampled_from(["DeviceShare", "Reservation", "Coscheduling", "ElasticQuota"])
enabled = st.lists(
    st.fixed_dictionaries({"name": names}, optional={"weight": st.integers(0, 9)}),
    unique_by=lambda row: str(row["name"]),
    max_size=4,
)
points = st.fixed_dictionaries(
    {}, optional={"enabled": enabled, "disabled": st.just([{"name": "*"}])}
)
nodes = st.integers(0, 100)


@st.composite
def kube_like(draw: st.DrawFn) -> dict[str, Any]:
    profile = st.fixed_dictionaries(
        {},
        optional={
            "plugins": st.dictionaries(st.sampled_from(["filter", "score", "reserve"]), points),
            "percentageOfNodesToScore": nodes,
            "pluginConfig": st.just([{"name": "Coscheduling", "args": {"enablePreemption": True}}]),
        },
    )
    profiles = [
        {"schedulerName": f"s{at}", **row}
        for at, row in enumerate(draw(st.lists(profile, max_size=2)))
    ]
    others = [
        {"urlPrefix": f"http://other{at}/extender", "managedResources": [{"name": f"e.org/{at}"}]}
        for at in range(draw(st.integers(0, 2)))
    ]
    body: dict[str, Any] = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
    }
    optional = {
        "profiles": profiles,
        "extenders": others,
        "percentageOfNodesToScore": draw(nodes),
        "leaderElection": {"resourceName": draw(words)},
        "clientConnection": {"qps": 50},
    }
    body |= {key: optional[key] for key in draw(st.permutations(list(optional)))[: draw(nodes) % 6]}
    return {**body, "extra": draw(trees)}


@st.composite
def volcano(draw: st.DrawFn) -> dict[str, Any]:
    plugin = st.fixed_dictionaries(
        {"name": st.sampled_from(["gang", "deviceshare", "drf", "binpack", "predicates"])},
        optional={"arguments": st.dictionaries(words, scalars, max_size=2)},
    )
    rows = st.lists(plugin, max_size=4, unique_by=lambda row: str(row["name"]))
    tiers = draw(st.lists(st.builds(lambda row: {"plugins": row}, rows), min_size=1, max_size=3))
    return {"actions": "allocate", "tiers": tiers, "extra": draw(trees)}


options = st.builds(
    ConfigureOptions,
    url=st.none() | st.just("http://10.0.0.1:9595"),
    preemption=st.none() | st.booleans(),
    kubeconfig=st.none() | st.just("/etc/k.conf"),
)


def written(body: dict[str, Any], style: bool | None) -> Source:
    return Source("it", yaml.safe_dump(body, default_flow_style=style, sort_keys=False), named=True)


def check(scheduler: Scheduler, given: Source, chosen: ConfigureOptions) -> dict[str, Any]:
    original = yaml.safe_load(given.text)

    once = configure(scheduler, given, chosen).after

    twice = configure(scheduler, Source("it", once, named=True), chosen).after
    assert twice == once
    bare = configure(scheduler, Source("it", once, named=True), ConfigureOptions()).after
    assert bare == once  # what was chosen stays
    back = unconfigure(scheduler, Source("it", once, named=True)).after
    assert yaml.safe_load(back) == original
    made: dict[str, Any] = yaml.safe_load(once)
    assert made["extra"] == original["extra"]
    return made


@few
@given(kube_like(), options, st.booleans() | st.none())
def test_koord_scheduler(
    body: dict[str, Any], chosen: ConfigureOptions, style: bool | None
) -> None:
    made = check(Scheduler.KOORD, written(body, style), chosen)

    assert "DeviceShare" not in repr(made.get("profiles"))
    assert made["percentageOfNodesToScore"] == 100
    assert made["extenders"][:-2] == body.get("extenders", [])
    assert all(row["urlPrefix"].endswith(PATH) for row in made["extenders"][-2:])
    assert made.get("leaderElection") == body.get("leaderElection")


@few
@given(kube_like(), options)
def test_kube_scheduler(body: dict[str, Any], chosen: ConfigureOptions) -> None:
    for profile in body.get("profiles", ()):
        profile.pop("plugins", None)

    made = check(Scheduler.KUBE, written(body, style=False), chosen)

    assert len(made["extenders"]) == len(body.get("extenders", [])) + 2


@few
@given(volcano(), st.booleans() | st.none())
def test_vc_scheduler(body: dict[str, Any], style: bool | None) -> None:
    made = check(Scheduler.VOLCANO, written(body, style), ConfigureOptions())

    (own,) = [row for row in made["tiers"][0]["plugins"] if row["name"] == "extender"]
    assert own["arguments"]["extender.urlPrefix"].endswith("/volcano")
    rest = [
        [row for row in tier["plugins"] if row["name"] not in {"extender", "deviceshare"}]
        for tier in made["tiers"]
    ]
    assert rest == [
        [row for row in tier["plugins"] if row["name"] != "deviceshare"] for tier in body["tiers"]
    ]


@few
@given(kube_like(), st.booleans(), st.booleans())
def test_any_change_of_mind_can_be_undone(
    body: dict[str, Any], preemption: bool, renames: bool
) -> None:
    text = written(body, style=False)
    chosen = ConfigureOptions(
        preemption=preemption,
        scheduler_name="mine" if renames and len(body.get("profiles", ())) == 1 else None,
    )
    once = configure(Scheduler.KOORD, text, chosen).after
    again = configure(
        Scheduler.KOORD, Source("it", once, named=True), ConfigureOptions(preemption=not preemption)
    )

    back = unconfigure(Scheduler.KOORD, Source("it", again.after, named=True))

    assert yaml.safe_load(back.after) == yaml.safe_load(text.text)


choices = st.builds(
    ConfigureOptions,
    mode=st.none() | st.sampled_from(SchedulerMode),
    ask=st.none() | st.sampled_from(Asked),
    url=st.none() | st.just("http://10.0.0.1:9595"),
)


@few
@given(kube_like() | volcano(), st.lists(choices, min_size=1, max_size=3), st.booleans())
def test_any_way_through_the_modes_can_be_undone(
    body: dict[str, Any], ways: list[ConfigureOptions], style: bool
) -> None:
    scheduler = Scheduler.VOLCANO if "tiers" in body else Scheduler.KOORD
    text = written(body, style)
    now = text
    for way in ways:
        with contextlib.suppress(InputError):  # a choice that does not fit changes nothing
            now = Source("it", configure(scheduler, now, way).after, named=True)
            assert configure(scheduler, now, ConfigureOptions()).after == now.text

    back = unconfigure(scheduler, now)

    assert yaml.safe_load(back.after) == body


@few
@given(kube_like() | volcano(), st.sampled_from(Scheduler), st.data())
def test_any_damage_gives_a_result_or_a_plain_error(
    body: dict[str, Any], scheduler: Scheduler, data: st.DataObject
) -> None:
    try:
        once = configure(scheduler, written(body, style=False), ConfigureOptions()).after
    except InputError:
        once = yaml.safe_dump(body)
    made = yaml.safe_load(once)
    where: Any = made
    while isinstance(where, dict | list) and where:
        keys = list(where) if isinstance(where, dict) else list(range(len(where)))
        key = data.draw(st.sampled_from(keys))
        if data.draw(st.booleans()) or not isinstance(where[key], dict | list):
            where[key] = data.draw(trees)
            break
        where = where[key]
    head = "".join(line for line in once.splitlines(keepends=True) if line.startswith("# dragoman"))
    damaged = Source("it", head + yaml.safe_dump(made), named=True)

    with contextlib.suppress(InputError):
        configure(scheduler, damaged, ConfigureOptions())
    with contextlib.suppress(InputError):
        unconfigure(scheduler, damaged)
