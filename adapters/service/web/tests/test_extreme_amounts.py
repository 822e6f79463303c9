"""A record of impossible amounts is unreadable, and one that is read can be shown and decided."""

import json

from adapters.dialects.tests.extremes import EXTREMES, Json, places, replaced
from adapters.service.grpc.calls import card_messages, grant_messages
from adapters.service.observe.card_metrics import CardMetrics
from adapters.service.tests.builders import a_ledger_cache, a_pod, a_service, body, run
from adapters.service.web.app import App
from adapters.service.web.tests.calls import app_of, call
from adapters.stores.store import Change, Stored, StoredQuota
from adapters.wire.decode.decoder import Decoder, UnreadableError
from adapters.wire.records.ledger import LedgerRecordError, decode, encode
from adapters.wire.records.quota import QuotaRecordError, ShareQuotaObject, read_quota, write_status
from core.hardware.quantity import GIB
from core.ledger.node_ledger import NodeLedger

SLICE = {
    "profile": "1g",
    "start": 0,
    "size": 1,
    "memory": GIB,
    "compute": 14,
    "layout": "l",
    "position": 0,
}
CARD = {
    "index": 0,
    "vendor": "nvidia",
    "model": "A10",
    "memory": 8 * GIB,
    "slots": 10,
    "numa": 0,
    "dialects": ["volcano"],
}
MIG = {**CARD, "uuid": "MIG", "mode": "mig", "geometry": 0, "index": 1}
GRANT = {"container": "c", "card": "GPU", "memory": GIB, "compute": 10}
USES = [
    *([{**GRANT, "container": name} for name in ("a", "b", "c")]),
    {**GRANT, "card": "MIG", "slice": SLICE},
]
RECORD: Json = {
    "node": "n",
    "changes": 1,
    "cards": [{**CARD, "uuid": "GPU"}, MIG],
    "geometries": [{"layouts": [{"name": "l", "slices": [SLICE, {**SLICE, "start": 1}]}]}],
    "partitions": [{"indexes": [0, 1], "bandwidth": 1, "score": 1}],
    "losses": [{"cards": 2, "value": 3}],
    "gains": [{"cards": 2, "value": 3}],
    "fences": {"default": 1},
    "meter": {
        "until": 1,
        "totals": [
            {
                "namespace": "default",
                "dialect": "volcano",
                "model": "A10",
                "shares": "1",
                "memory": "1",
                "compute": "1",
            }
        ],
    },
    "allocations": [
        {
            "uid": f"u{number}",
            "pod": f"default/x{number}",
            "dialect": "volcano",
            "priority": 0,
            "since": 0,
            "releaseBy": 1,
            "grants": USES,
        }
        for number in range(4)
    ],
}
POD = a_pod("p", memory=100)
ROUTES = (
    "/api/nodes",
    "/api/cards",
    "/api/pods",
    "/api/dashboard/summary",
    "/api/dashboard/nodes",
    "/api/dashboard/node?name=n",
    "/api/dashboard/pods",
    "/api/dashboard/pod?name=default/x1",
    "/api/dashboard/explain?name=default/p",
)


async def check(app: App, ledger: NodeLedger, what: object) -> None:
    """All that is shown of a ledger, and what is decided beside it."""
    again = decode(encode(ledger))
    assert (again.node, again.allocations) == (ledger.node, ledger.allocations), what
    assert card_messages(ledger), what
    for allocation in ledger.allocations.values():
        grant_messages(allocation.grants)
        assert all(each.memory or each.exclusive or each.slice for each in allocation.grants), what
    CardMetrics(a_ledger_cache(), peers=True).lines(ledger)
    for route in ROUTES:
        got = await call(app, "GET", route)
        assert got is not None
        assert got.status == 200, (route, what)
    for verb in ("filter", "prioritize"):
        asked = body({"Pod": POD, "NodeNames": ["n", "n1"]})
        got = await call(app, "POST", f"/extender/{verb}", asked)
        assert got is not None
        assert got.status == 200, (verb, what)
        assert "n1" in str(got.json), (verb, what)


def test_a_ledger_is_unreadable_or_can_be_shown_and_decided() -> None:
    async def work() -> None:
        bench = await a_service(pods=[POD])
        app = await app_of(bench)
        read = 0
        for place in places(RECORD):
            if place[:2] in {("allocations", number) for number in (1, 2, 3)}:
                continue
            for extreme in EXTREMES:
                record = replaced(RECORD, place, extreme)
                if place[0] == "allocations":  # the same for all pods of a card
                    inner = record["allocations"][0]
                    record["allocations"] = [
                        {**inner, "uid": f"u{number}", "pod": f"default/x{number}"}
                        for number in range(4)
                    ]
                try:
                    ledger = decode(json.dumps(record).encode())
                except LedgerRecordError:
                    continue
                read += 1
                bench.service.ledgers.put(Change("n", Stored(ledger, str(read))))
                await check(app, ledger, (place, extreme))
        assert read > len(ROUTES)

    run(work())


OBJECT = Decoder(ShareQuotaObject)
QUOTA: Json = {
    "metadata": {"name": "quota", "namespace": "default", "uid": "u", "resourceVersion": "1"},
    "spec": {"limits": {"cards": 2, "memory": "24Gi", "compute": 250}},
    "status": {
        "counted": True,
        "sequence": 5,
        "claims": [
            {
                "uid": f"u{number}",
                "pod": f"default/x{number}",
                "node": "n",
                "number": 1,
                "cards": 500,
                "memory": GIB,
                "compute": 10,
            }
            for number in range(4)
        ],
    },
}


def test_a_quota_is_unreadable_or_can_be_shown_and_written() -> None:
    async def work() -> None:
        bench = await a_service(pods=[POD])
        app = await app_of(bench)
        for place in places(QUOTA):
            for extreme in EXTREMES:
                thing = replaced(QUOTA, place, extreme)
                if "claims" in place:
                    amounts = thing["status"]["claims"][0]
                    thing["status"]["claims"] = [
                        {**amounts, "uid": f"u{number}"} for number in range(4)
                    ]
                try:
                    quota = read_quota(OBJECT.decode(json.dumps(thing)))
                except (QuotaRecordError, UnreadableError):
                    continue
                assert json.loads(write_status(quota, "1"))["status"]["claims"], (place, extreme)
                bench.service.quotas.apply(StoredQuota(quota, "1", uid=str((place, extreme))))
                for route in ("/api/dashboard/pods?namespace=default", "/api/dashboard/pending"):
                    got = await call(app, "GET", route)
                    assert got is not None
                    assert got.status == 200, (route, place, extreme)

    run(work())
