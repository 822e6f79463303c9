import pytest

from adapters.cluster.watch.object_tracker import Identity
from adapters.dialects.dialect import Documents
from adapters.dialects.volcano.keys import DEVICE_CONFIG, SCHEDULER_CONFIG
from adapters.service.in_cluster.handlers import (
    SchedulerConfig,
    config_map_names,
)
from adapters.tests.hostile_texts import TEXTS
from adapters.wire.kube import ConfigMap, Metadata, Unreadable

NAME, KEY = DEVICE_CONFIG


class Service:
    """Applies settings, but for some that it rejects."""

    def __init__(self) -> None:
        self.applied: list[Documents] = []
        self.problems: list[str] = []
        self.settings = SchedulerConfig(("kube-system", "gpus"), self.apply, self.problems.append)

    def apply(self, documents: Documents) -> None:
        if "nonsense" in documents.values():
            raise ValueError("nonsense")
        self.applied.append(documents)

    def sync(self) -> None:
        for name in config_map_names():
            self.settings.handler(name).on_synced()


@pytest.fixture
def service() -> Service:
    return Service()


def config_map(text: str, namespace: str = "kube-system", key: str = KEY) -> ConfigMap:
    return ConfigMap(Metadata(name=NAME, namespace=namespace), {key: text, "other": "{"})


def test_no_config_map_is_applied_before_all_names_were_listed(service: Service) -> None:
    service.settings.put(config_map("a: 1"))
    first, *others = sorted(config_map_names())
    for name in others:
        service.settings.synced(name)
    assert service.applied == []

    service.settings.synced(first)

    assert service.applied == [{(NAME, KEY): {"a": 1}}]


def test_a_cluster_without_config_maps_has_the_defaults(service: Service) -> None:
    service.sync()

    assert service.applied == [{}]


def test_every_change_is_applied_once(service: Service) -> None:
    service.sync()
    sink = service.settings.handler(NAME)

    for _ in range(3):
        sink.on_update(config_map("a: 1"))
        sink.on_synced()
    sink.on_update(config_map("a: 2"))
    sink.on_delete(Identity("kube-system", NAME, "uid"))

    assert [documents.get((NAME, KEY)) for documents in service.applied] == [
        None,
        {"a": 1},
        {"a": 2},
        None,
    ]


def test_an_invalid_config_map_is_reported_and_the_earlier_settings_stay(service: Service) -> None:
    service.sync()
    service.settings.put(config_map("a: 1"))
    service.settings.put(config_map("a: ["))
    service.settings.put(config_map("nonsense"))

    assert service.applied[-1] == {(NAME, KEY): {"a": 1}}
    place = f"ConfigMap kube-system/{NAME}, data[{KEY}]"
    assert service.problems[0].startswith(
        f"{place}: its earlier state stays in use: line 2: is not YAML"
    )
    assert service.problems[1] == "the earlier settings stay in use: nonsense"


def test_a_config_map_that_is_nested_too_deeply_is_reported(service: Service) -> None:
    service.sync()
    service.settings.put(config_map("a: 1"))
    service.settings.put(config_map("[" * 100_000))

    assert service.applied[-1] == {(NAME, KEY): {"a": 1}}
    assert "is nested more than 200 levels deep" in service.problems[0]


@pytest.mark.parametrize("what", TEXTS)
def test_no_text_of_one_file_keeps_the_others_from_being_applied(
    what: str, service: Service
) -> None:
    other, file = SCHEDULER_CONFIG
    service.settings.put(config_map(TEXTS[what]))
    service.settings.put(ConfigMap(Metadata(name=other, namespace="kube-system"), {file: "a: 1"}))
    service.sync()

    (applied,) = service.applied
    assert applied[other, file] == {"a": 1}


def test_of_config_maps_in_two_namespaces_the_first_is_applied_and_the_other_reported(
    service: Service,
) -> None:
    service.settings.put(config_map("from: gpus", "gpus"))
    service.settings.put(config_map("from: system", "kube-system"))
    service.sync()

    assert service.applied == [{(NAME, KEY): {"from": "system"}}]
    assert service.problems == [
        f"ConfigMap gpus/{NAME}: ignored, because ConfigMap kube-system/{NAME} exists too"
    ]


@pytest.mark.parametrize("text", ["from: tenant", "a: [", "nonsense"])
def test_a_tenants_config_map_of_that_name_neither_replaces_nor_disturbs_the_settings(
    service: Service, text: str
) -> None:
    service.settings.put(config_map(text, "a-tenant"))
    service.settings.put(config_map("from: system"))
    service.sync()

    service.settings.put(config_map(text + " ", "a-tenant"))
    service.settings.put(config_map(text, "a-tenant", "unknown"))
    service.settings.drop(Identity("a-tenant", NAME, "uid"))

    assert service.applied == [{(NAME, KEY): {"from": "system"}}]
    assert service.problems == [
        f"ConfigMap a-tenant/{NAME}: ignored, because schedulerNamespaces does not name its"
        " namespace"
    ]


def test_a_tenants_config_map_alone_leaves_the_defaults(service: Service) -> None:
    service.settings.put(config_map("from: tenant", "a-tenant"))
    service.sync()

    assert service.applied == [{}]


def test_an_unreadable_config_map_changes_nothing(service: Service) -> None:
    service.sync()
    service.settings.put(config_map("a: 1"))

    service.settings.handler(NAME).on_unreadable(Unreadable("kube-system", NAME, "uid"), "odd")

    assert service.applied[-1] == {(NAME, KEY): {"a": 1}}


def test_hamis_config_map_is_read_by_the_name_that_it_has_in_this_cluster() -> None:
    applied: list[Documents] = []
    renamed = {"hami-scheduler-device": "gpu-hami-scheduler-device"}
    names = config_map_names(renamed)
    problems: list[str] = []
    settings = SchedulerConfig(("hami-system",), applied.append, problems.append, renamed)

    assert "gpu-hami-scheduler-device" in names
    assert "hami-scheduler-device" not in names
    for name in names:
        settings.synced(name)
    meta = Metadata(name="gpu-hami-scheduler-device", namespace="hami-system")
    settings.put(ConfigMap(meta, {"device-config.yaml": "nvidia: {}"}))
    assert applied[-1] == {("hami-scheduler-device", "device-config.yaml"): {"nvidia": {}}}
    assert problems == []
