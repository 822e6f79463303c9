from typing import NamedTuple

import pytest

from adapters.dialects.dialect import Documents
from adapters.dialects.volcano.keys import DEVICE_CONFIG
from adapters.sidecar.in_cluster.scheduler_config import (
    SchedulerConfig,
    SchedulerConfigHandler,
    config_map_names,
)
from adapters.wire.kube import ConfigMap, Metadata

NAME, KEY = DEVICE_CONFIG


class Which(NamedTuple):
    namespace: str
    name: str


class Learner:
    """Who uses the settings, and cannot use every one."""

    def __init__(self) -> None:
        self.learned: list[Documents] = []
        self.told: list[str] = []
        self.settings = SchedulerConfig(self.learn, self.told.append)

    def learn(self, documents: Documents) -> None:
        if "nonsense" in documents.values():
            raise ValueError("nonsense")
        self.learned.append(documents)

    def sync(self) -> None:
        for name in config_map_names():
            SchedulerConfigHandler(name, self.settings).on_synced()


@pytest.fixture
def learner() -> Learner:
    return Learner()


def config_map(text: str, namespace: str = "kube-system", key: str = KEY) -> ConfigMap:
    return ConfigMap(Metadata(name=NAME, namespace=namespace), {key: text, "other": "{"})


def test_nothing_is_learned_before_all_have_been_looked_for(learner: Learner) -> None:
    learner.settings.put(config_map("a: 1"))
    first, *others = sorted(config_map_names())
    for name in others:
        learner.settings.synced(name)
    assert learner.learned == []

    learner.settings.synced(first)

    assert learner.learned == [{(NAME, KEY): {"a": 1}}]


def test_a_cluster_without_any_has_the_defaults(learner: Learner) -> None:
    learner.sync()

    assert learner.learned == [{}]


def test_every_change_is_learned_once(learner: Learner) -> None:
    learner.sync()
    sink = SchedulerConfigHandler(NAME, learner.settings)

    for _ in range(3):
        sink.on_update(config_map("a: 1"))
        sink.on_synced()
    sink.on_update(config_map("a: 2"))
    sink.on_delete(Which("kube-system", NAME))

    assert [found.get((NAME, KEY)) for found in learner.learned] == [None, {"a": 1}, {"a": 2}, None]


def test_what_cannot_be_used_is_told_and_the_earlier_ones_stay(learner: Learner) -> None:
    learner.sync()
    learner.settings.put(config_map("a: 1"))
    learner.settings.put(config_map("a: ["))
    learner.settings.put(config_map("nonsense"))

    assert learner.learned[-1] == {(NAME, KEY): {"a": 1}}
    assert f"ConfigMap kube-system/{NAME}, data[{KEY}]: is not YAML" in learner.told[0]
    assert learner.told[1] == "the earlier ones stay: nonsense"


def test_of_two_namespaces_the_first_counts_and_it_is_told(learner: Learner) -> None:
    learner.settings.put(config_map("from: b", "b"))
    learner.settings.put(config_map("from: a", "a"))
    learner.sync()

    assert learner.learned == [{(NAME, KEY): {"from": "a"}}]
    assert learner.told == [
        f"ConfigMap b/{NAME}: passed over, since ConfigMap a/{NAME} is there too"
    ]


def test_one_that_cannot_be_read_changes_nothing(learner: Learner) -> None:
    learner.sync()
    learner.settings.put(config_map("a: 1"))

    SchedulerConfigHandler(NAME, learner.settings).on_unreadable(Which("kube-system", NAME), "odd")

    assert learner.learned[-1] == {(NAME, KEY): {"a": 1}}
