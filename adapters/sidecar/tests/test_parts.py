"""The small parts of the service, each alone."""

import ssl
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from adapters.sidecar import settings as settings_module
from adapters.sidecar.decide.ledger_cache import LedgerCache
from adapters.sidecar.decide.ports import BindError, DecisionRecord, Outcome
from adapters.sidecar.decide.scores import scaled
from adapters.sidecar.observe.card_metrics import CardMetrics
from adapters.sidecar.observe.metrics import Metrics
from adapters.sidecar.settings import Settings, SettingsError
from adapters.sidecar.tests.builders import run
from adapters.stores.store import Change, Stored
from core.hardware.mig import Slice
from core.hardware.quantity import GIB
from core.ledger.node_ledger import LedgerError, NodeLedger
from core.requests.grant import Allocation
from core.tests.builders import a_grant, empty, held, like_cards

# --- ledgers -----------------------------------------------------------------------------------


def stored(ledger: NodeLedger) -> Stored:
    return Stored(ledger, str(ledger.version))


def a_cache() -> LedgerCache:
    ledgers = LedgerCache()
    ledgers.load({"n": stored(empty(*like_cards(1)))})
    return ledgers


def test_an_older_record_does_not_undo_a_newer_one() -> None:
    ledgers = a_cache()
    older = empty(*like_cards(1))
    newer = older.adopt(held(a_grant("c0"), uid="a"))

    ledgers.apply(Change("n", stored(newer)))
    ledgers.apply(Change("n", stored(older)))

    assert ledgers.inventory.nodes_of("a") == ("n",)


def test_a_repeated_record_changes_nothing() -> None:
    ledgers = a_cache()
    taken = empty(*like_cards(1)).adopt(held(a_grant("c0"), uid="a"))
    ledgers.apply(Change("n", stored(taken)))
    before = ledgers.revision

    ledgers.apply(Change("n", stored(taken)))

    assert ledgers.revision == before


def test_reservations_count_and_end_where_a_commit_conflicts() -> None:
    ledgers = a_cache()
    ledgers.reserve(held(a_grant("c0", 10 * GIB), uid="plan"), expires=5)
    with pytest.raises(LedgerError):
        ledgers.reserve(held(a_grant("c0", 10 * GIB), uid="other"), expires=5)

    taken = empty(*like_cards(1)).adopt(held(a_grant("c0", 16 * GIB), uid="real"))
    ledgers.apply(Change("n", stored(taken)))

    assert ledgers.reservation_count() == 0
    assert ledgers.inventory.nodes_of("plan") == ()


def test_a_rejected_reservation_leaves_the_earlier_one() -> None:
    ledgers = a_cache()
    ledgers.reserve(held(a_grant("c0"), uid="plan"), expires=5)
    with pytest.raises(LedgerError):
        ledgers.reserve(held(a_grant("c0", 17 * GIB), uid="plan"), expires=9)

    found = ledgers.reservation("plan")
    assert found is not None
    assert (found.grants[0].memory, found.expires) == (GIB, 5)


def test_reservations_expire_and_survive_a_reload() -> None:
    ledgers = a_cache()
    ledgers.reserve(held(a_grant("c0"), uid="plan"), expires=5)
    ledgers.load({"n": stored(empty(*like_cards(1)))})

    assert ledgers.inventory.nodes_of("plan") == ("n",)
    assert (ledgers.expire(4), ledgers.expire(5), ledgers.expire(6)) == (0, 1, 0)
    assert ledgers.inventory.nodes_of("plan") == ()


def test_a_node_with_an_unreadable_record_gets_no_pods_until_it_is_readable() -> None:
    ledgers = a_cache()

    ledgers.apply(Change("n", None, "not JSON"))
    unreadable = (ledgers.ledger("n"), ledgers.problem("n"))
    ledgers.apply(Change("n", stored(empty(*like_cards(1)))))

    assert unreadable == (None, "not JSON")
    assert ledgers.problem("n") is None
    assert ledgers.ledger("n") is not None


def test_every_change_increases_the_revision() -> None:
    ledgers = a_cache()
    seen = [ledgers.revision]
    ledgers.reserve(held(a_grant("c0"), uid="plan"), expires=5)
    seen.append(ledgers.revision)
    ledgers.unreserve("plan")
    seen.append(ledgers.revision)
    ledgers.apply(Change("n", None))
    seen.append(ledgers.revision)

    assert sorted(set(seen)) == seen


# --- scores ---------------------------------------------------------------------------------


@given(
    st.dictionaries(
        st.text(max_size=3),
        st.one_of(st.none(), st.tuples(st.integers(-5, 30), st.integers(-5, 5))),
    )
)
def test_scores_never_contradict_the_values(values: Mapping[str, tuple[int, ...] | None]) -> None:
    scores = scaled(values, 10)

    assert set(scores) == set(values)
    assert all(0 <= score <= 10 for score in scores.values())
    ordered = sorted(values, key=lambda name: (values[name] is not None, values[name] or ()))
    assert all(scores[a] <= scores[b] for a, b in pairwise(ordered))
    if len(set(values.values())) > 1:
        best = max(values, key=lambda name: (values[name] is not None, values[name] or ()))
        assert scores[best] == 10


# --- settings -------------------------------------------------------------------------------


def test_the_example_settings_are_valid(tmp_path: Path) -> None:
    found = settings_module.read(Path("configs/sidecar.yaml"), {})

    assert settings_module.address(found.listen) == ("127.0.0.1", 9595)
    assert found.policy.defaults().topology_aware is True
    assert settings_module.read(None, {}) == Settings()
    assert tmp_path.exists()


def test_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text("holdSeconds: 7\npolicy: {node: spread}\ntls:\n")
    environment = {
        "DRAGOMAN_HOLDSECONDS": "9",
        "DRAGOMAN_POLICY_NODE": "binpack",
        "DRAGOMAN_POLICY_TOPOLOGYAWARE": "true",
        "PATH": "/bin",
    }

    found = settings_module.read(file, environment)

    assert found.hold_seconds == 9
    assert found.policy.node is not None
    assert (found.policy.node.value, found.policy.topology_aware) == ("binpack", True)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("listen: nowhere", "listen"),
        ("holdSeconds: 0", "holdSeconds"),
        ("policy: {node: fast}", "policy.node"),
        ("polcy: {}", "polcy"),
        ("tls: {certificate: a}", "tls.key"),
        (
            "tls: {certificate: a, managed: {secret: a, names: [b]}}",
            "leave certificate and key out",
        ),
        ("tls: {managed: {secret: a, names: [b]}}", "needs store: kubernetes"),
        ("tls: {managed: {secret: a, names: []}}", "tls.managed.names"),
        ("tls: {managed: {secret: a, names: [b], leafSeconds: 60}}", "6 times overlapSeconds"),
        ("tls: {managed: {secret: a, names: [b], authoritySeconds: 999}}", "2 times leafSeconds"),
        ("store: postgres", "store"),
        ("requiredPlugin: two words", "requiredPlugin"),
        ("[1]", "mapping"),
        ("a: [", "YAML"),
    ],
)
def test_an_invalid_setting_is_named(tmp_path: Path, text: str, key: str) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(text)

    with pytest.raises(SettingsError, match=key):
        settings_module.read(file, {})


@pytest.mark.parametrize("name", ["DRAGOMAN_LISTN", "DRAGOMAN_POLICY", "DRAGOMAN_LISTEN_X"])
def test_a_variable_without_a_setting_is_rejected(name: str) -> None:
    with pytest.raises(SettingsError, match=name):
        settings_module.read(None, {name: "x"})


def test_a_missing_file_is_reported() -> None:
    with pytest.raises(SettingsError, match="cannot be read"):
        settings_module.read(Path("/nowhere/x.yaml"), {})


EVERY = {
    "LISTEN": "127.0.0.1:1",
    "TLS_CERTIFICATE": "a",
    "TLS_KEY": "b",
    "TLS_LISTEN": "127.0.0.1:2",
    "TLS_CLIENTAUTHORITIES": "c",
    "GRPC": "127.0.0.1:3",
    "GRPCTLS_CERTIFICATE": "d",
    "GRPCTLS_KEY": "e",
    "GRPCTLS_CLIENTAUTHORITIES": "f",
    "STORE": "kubernetes",
    "KUBECONFIG": "g",
    "NAMESPACE": "h",
    "HOLDSECONDS": "7",
    "PUBLISH": "volcano,metax",
    "NODELOCK": "never",
    "REQUIREDPLUGIN": "dragoman",
    "PEERMETRICS": "false",
    "POLICY_NODE": "spread",
    "POLICY_CARD": "binpack",
    "POLICY_TOPOLOGYAWARE": "false",
    "LOG_LEVEL": "debug",
    "LOG_FORMAT": "text",
}


def leaves(section: Mapping[str, object], path: str = "") -> dict[str, object]:
    """Every setting, by the name of its variable."""
    found: dict[str, object] = {}
    for key, value in section.items():
        name = f"{path}_{key}" if path else key
        found |= leaves(value, name) if isinstance(value, Mapping) else {name.upper(): value}
    return found


def test_every_value_can_be_set_by_the_environment() -> None:
    made = settings_module.read(None, {f"DRAGOMAN_{name}": value for name, value in EVERY.items()})

    said = leaves(made.model_dump(mode="json", by_alias=True))
    plain = leaves(Settings().model_dump(mode="json", by_alias=True))
    assert said.keys() - {"TLS_MANAGED"} == EVERY.keys()
    assert all(said[name] != plain.get(name) for name in EVERY)


# --- metrics --------------------------------------------------------------------------------


def test_decisions_conflicts_and_calls_are_counted() -> None:
    metrics = Metrics()
    metrics.decided(
        DecisionRecord("filter", Outcome.REFUSED, "default/p", cause="memory", dialect="metax")
    )
    metrics.conflict()
    metrics.called("filter", 200, 0.003)
    metrics.watch("pods", lambda: 2.5)
    metrics.gauge("dragoman_holds", "Holds.", lambda: 4)

    text = metrics.text().decode()

    assert (
        'dragoman_decisions_total{dialect="metax",reason="memory",result="refused",verb="filter"} 1'
        in text
    )
    assert "dragoman_ledger_conflicts_total 1.0" in text
    assert 'dragoman_call_seconds_bucket{le="0.005",verb="filter"} 1.0' in text
    assert "dragoman_build_info{" in text
    assert "process_resident_memory_bytes" in text
    assert 'dragoman_watch_staleness_seconds{watch="pods"} 2.5' in text
    assert "dragoman_holds 4.0" in text


def test_card_metrics_have_our_names_and_the_peers_and_follow_the_ledgers() -> None:
    ledgers = a_cache()
    cards = CardMetrics(ledgers)
    before = b"".join(run(cards.text())).decode()
    allocation: Allocation = held(a_grant("c0", 4 * GIB, 25), uid="a")
    ledgers.apply(Change("n", stored(empty(*like_cards(1)).adopt(allocation))))
    after = b"".join(run(cards.text())).decode()

    gained = 'dragoman_card_memory_granted_bytes{node="n",uuid="c0",index="0",vendor="nvidia"'
    assert f'{gained},model="A100"}} 0' in before
    assert f'{gained},model="A100"}} {4 * GIB}' in after
    labels = 'zone="vGPU",node="n",device_uuid="c0",device_index="0",device_type="A100"'
    assert f"hami_gpu_core_allocated_ratio{{{labels}}} 25" in after
    cores = f'{labels},device_cores="100"'
    assert f"hami_gpu_memory_allocated_bytes{{{cores}}} {4 * GIB}" in after
    assert f'hami_node_gpu_overview{{{cores},device_memory_limit="' in after
    assert 'volcano_vgpu_device_allocated_memory{devID="c0",NodeName="n"} 4096' in after
    assert (
        "volcano_vgpu_device_memory_allocation_for_a_certain_pod"
        '{devID="c0",NodeName="n",podName="old"} 4096'
    ) in after or 'podName="a"} 4096' in after


# Source: the peers' own lists, as of HAMi v2.10.0 and Volcano v1.14.1; quotas are not ours.
TODAY = {
    "hami_gpu_memory_limit_bytes",
    "hami_gpu_core_limit_ratio",
    "hami_gpu_memory_allocated_bytes",
    "hami_gpu_shared_count",
    "hami_gpu_core_allocated_ratio",
    "hami_node_gpu_overview",
    "hami_node_gpu_memory_allocated_ratio",
    "hami_node_gpu_mig_instance_info",
    "hami_vgpu_memory_allocated_bytes",
    "hami_vgpu_core_allocated_ratio",
    "volcano_vgpu_device_shared_number",
    "volcano_vgpu_device_allocated_memory",
    "volcano_vgpu_device_allocated_cores",
    "volcano_vgpu_device_memory_limit",
    "volcano_vgpu_device_memory_allocation_for_a_certain_pod",
    "volcano_vgpu_device_core_allocation_for_a_certain_pod",
}


def a_full_exposition() -> str:
    """Two pods of one name on a card, and a slice."""
    piece = Slice("1g.10gb", 2, 1, 10 * GIB, 14, "all", 0)
    ledger = empty(*like_cards(2))
    for uid, pod in (("a", "x/p"), ("b", "y/p")):
        ledger = ledger.adopt(replace(held(a_grant("c0", 4 * GIB, 25), uid=uid), pod=pod))
    sliced = replace(a_grant("c1", piece.memory, piece.compute), slice=piece)
    ledgers = LedgerCache()
    ledgers.load({"n": stored(ledger.adopt(held(sliced, uid="c")))})
    return b"".join(run(CardMetrics(ledgers).text())).decode()


def test_the_metrics_of_the_peers_dashboards_exist() -> None:
    families = {found.name: found for found in text_string_to_metric_families(a_full_exposition())}

    assert families.keys() >= TODAY
    assert all(families[name].samples for name in TODAY)
    (piece,) = families["hami_node_gpu_mig_instance_info"].samples
    assert (piece.labels["profile"], piece.labels["placement_start"]) == ("1g.10gb", "2")


def test_the_peers_names_can_be_left_out() -> None:
    ledgers = a_cache()
    text = b"".join(run(CardMetrics(ledgers, peers=False).text())).decode()

    assert 'dragoman_card_sharers{node="n"' in text
    assert "hami_" not in text
    assert "volcano_" not in text


def test_no_series_is_duplicated_where_pods_share_a_name() -> None:
    lines = [line for line in a_full_exposition().splitlines() if not line.startswith("#")]
    series = [line.rpartition(" ")[0] for line in lines]

    assert len(series) == len({*series})
    assert 'a_certain_pod{devID="c0",NodeName="n",podName="p"} 8192' in "\n".join(lines)


def test_a_label_with_quotes_stays_one_label() -> None:
    ledgers = LedgerCache()
    ledgers.load({'n"1': stored(empty(*like_cards(1), name='n"1'))})

    assert 'node="n\\"1"' in b"".join(run(CardMetrics(ledgers).text())).decode()


# --- the rest -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "definite"),
    [(400, True), (403, True), (409, True), (408, False), (0, False), (504, False)],
)
def test_only_an_explicit_refusal_is_definite(status: int, definite: bool) -> None:
    assert BindError(status, "said").definite is definite


def test_tls_requires_a_valid_certificate(tmp_path: Path) -> None:
    from adapters.sidecar.certificates.tls_context import CertificateFiles

    (tmp_path / "crt").write_text("x")
    (tmp_path / "key").write_text("y")

    with pytest.raises(SettingsError, match="certificate"):
        CertificateFiles(tmp_path / "crt", tmp_path / "key", None)
    with pytest.raises(SettingsError, match="cannot be read"):
        CertificateFiles(tmp_path / "nothing", tmp_path / "key", None)
    assert ssl.HAS_TLSv1_2
