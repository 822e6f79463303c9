"""Metrics of cards and shares, under our names and those of the peers."""

from dataclasses import replace

from prometheus_client.parser import text_string_to_metric_families

from adapters.service.decide.state.ledger_cache import LedgerCache
from adapters.service.observe.card_metrics import CardMetrics
from adapters.service.observe.metrics import plain
from adapters.service.tests.builders import a_ledger_cache, run, stored
from adapters.stores.store import Change
from core.hardware.mig import Slice
from core.hardware.quantity import GIB
from core.ledger.node_ledger import Hold
from core.requests.grant import Allocation
from core.tests.builders import a_grant, empty, held, like_cards


def text_of(cards: CardMetrics) -> str:
    return plain(b"", run(cards.families())).decode()


def test_card_metrics_have_our_names_and_the_peers_and_follow_the_ledgers() -> None:
    ledgers = a_ledger_cache()
    cards = CardMetrics(ledgers, peers=True)
    before = text_of(cards)
    allocation: Allocation = held(a_grant("c0", 4 * GIB, 25), uid="a")
    ledgers.apply(Change("n", stored(empty(*like_cards(1)).adopt(allocation))))
    after = text_of(cards)

    gained = 'dragoman_card_memory_granted_bytes{node="n",uuid="c0"}'
    assert f"{gained} 0\n" in before
    assert f"{gained} {4 * GIB}\n" in after
    capacity = 'dragoman_card_memory_bytes{node="n",uuid="c0",index="0",vendor="nvidia"'
    assert f'{capacity},model="A100"}} ' in after
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


def test_what_is_kept_of_a_card_counts_as_nothing_that_a_pod_has() -> None:
    ledgers = a_ledger_cache()
    cards = CardMetrics(ledgers, peers=True)
    before = text_of(cards)
    place = held(a_grant("c0", 4 * GIB, 25), uid="hold")
    ledger = empty(*like_cards(1)).hold(Hold("plan", "owner", by_name=False, allocation=place))
    ledgers.apply(Change("n", stored(ledger)))

    assert text_of(cards) == before


# Source: the peers' own lists, as of HAMi v2.10.0 and Volcano v1.14.1.
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
    return text_of(CardMetrics(ledgers, peers=True))


def test_the_metrics_of_the_peers_dashboards_exist() -> None:
    families = {found.name: found for found in text_string_to_metric_families(a_full_exposition())}

    assert families.keys() >= TODAY
    assert all(families[name].samples for name in TODAY)
    (piece,) = families["hami_node_gpu_mig_instance_info"].samples
    assert (piece.labels["profile"], piece.labels["placement_start"]) == ("1g.10gb", "2")


def test_the_peers_names_are_left_out_by_default() -> None:
    text = text_of(CardMetrics(a_ledger_cache()))

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

    assert 'node="n\\"1"' in text_of(CardMetrics(ledgers))


def test_only_an_unhealthy_card_has_a_series_that_says_so() -> None:
    good, bad = like_cards(2)
    ledgers = LedgerCache()
    ledgers.load({"n": stored(empty(good, replace(bad, healthy=False)))})
    text = text_of(CardMetrics(ledgers))

    (line,) = [line for line in text.splitlines() if line.startswith("dragoman_card_unhealthy{")]
    assert f'uuid="{bad.uuid}"' in line
    assert line.endswith("} 1")


def test_a_replica_that_does_not_lead_exports_no_card() -> None:
    leading = False
    cards = CardMetrics(a_ledger_cache(), exported=lambda: leading)
    as_follower = text_of(cards)
    leading = True

    assert as_follower == ""
    assert "dragoman_card_memory_bytes{" in text_of(cards)


def test_the_lines_of_a_node_are_the_same_object_until_its_ledger_changes() -> None:
    ledgers = LedgerCache()
    ledgers.load({name: stored(empty(*like_cards(1), name=name)) for name in ("n", "m")})
    cards = CardMetrics(ledgers)
    before = run(cards.families())
    held_here = replace(held(a_grant("c0", 4 * GIB, 25), uid="a"))
    ledgers.apply(Change("n", stored(empty(*like_cards(1)).adopt(held_here))))
    after = run(cards.families())

    nodes = [ledger.node.name for ledger in ledgers.inventory]
    same = [old is new for old, new in zip(before[0].lines, after[0].lines, strict=True)]
    assert same == [name == "m" for name in nodes]


def test_no_card_has_more_than_four_lines_and_only_one_of_them_has_the_model() -> None:
    ledgers = a_ledger_cache()
    lines = [each for each in text_of(CardMetrics(ledgers)).splitlines() if "{" in each]
    cards = sum(len(ledger.node.cards) for ledger in ledgers.inventory)

    assert len(lines) == 4 * cards
    assert sum("model=" in line for line in lines) == cards
