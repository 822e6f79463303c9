"""Every field of the objects that the driver reads, with hostile values.

No ResourceSlice ends the watch of the node's slices or keeps the publisher from writing its own,
and no claim and no pod is more than an error of the claim that the kubelet asks for.
"""

import asyncio
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import inspect

from adapters.agent.apiserver import list_watch
from adapters.agent.apiserver.credentials import AgentCredentials
from adapters.cluster.tests.server import Reply, Request, serving
from adapters.dialects.dra import DRIVER
from adapters.dra_driver import preparation
from adapters.dra_driver import publisher as publishing
from adapters.dra_driver.devices import Json, card_devices
from adapters.dra_driver.publisher import SlicePublisher
from adapters.dra_driver.slice_server import COLLECTION, SliceServer
from adapters.dra_driver.slices import pools, slice_object
from adapters.dra_driver.tests.cards import card
from adapters.dra_driver.tests.node import NAMESPACE, POD_UID, DriverNode, grant
from adapters.tests.hostile_fields import FieldPath, fields, with_value
from adapters.tests.hostile_texts import VALUES
from adapters.tests.waiting import until
from adapters.wire.decode.decoder import Decoder, UnreadableError
from adapters.wire.dra import ClaimStatus, ResourceClaim, ResourceSlice
from adapters.wire.dra_pod import ClaimingPod
from core.requests.limits import GrantError

SLICE_FIELDS = sorted(
    {*fields(inspect.type_info(ResourceSlice), {}), ("metadata", "resourceVersion")}, key=str
)
CLAIM_FIELDS = sorted(
    set(fields(inspect.type_info(ResourceClaim), {"status": ClaimStatus})), key=str
)
POD_FIELDS = sorted(set(fields(inspect.type_info(ClaimingPod), {})), key=str)
NAMES = [*VALUES]

MOST = settings().max_examples
"""Examples; few of them, but for ``make fuzz``: each is a server and a watch."""

FEW = settings(max_examples=MOST if MOST > 1000 else 5)

OURS = pools("n1", [found for found in [card_devices(card(0))] if found is not None])
(NAME,) = OURS[0].slices


@pytest.fixture(autouse=True)
def short_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(list_watch, "MIN_RETRY_DELAY", 0.01)
    monkeypatch.setattr(publishing, "MIN_DELAY", 0.01)
    monkeypatch.setattr(preparation, "LEDGER_WAIT", 0.01)


# --- slices ---------------------------------------------------------------------------------------


def a_slice(name: str, version: int) -> Json:
    made = slice_object(
        "n1", "uid-of-node", replace(OURS[0], slices={name: OURS[0].slices[NAME]}), name, 1
    )
    return {**made, "metadata": {**made["metadata"], "resourceVersion": str(version)}}


class Slices:
    """An API server that lists hostile slices, and keeps what the driver writes."""

    def __init__(self, listed: Sequence[bytes], changed: Sequence[bytes]) -> None:
        self.listed = [*listed]
        self.changed = [*changed]
        self.lists = 0
        self.written: dict[str, Json] = {}
        self.deleted: set[str] = set()

    async def __call__(self, request: Request, reply: Reply) -> None:
        name = request.path.rpartition("/")[2]
        match request.method:
            case "GET" if request.path != COLLECTION:
                await reply.answer(200, {"metadata": {"name": "n1", "uid": "uid-of-node"}})
            case "GET" if "watch" in request.query:
                await self._watch(reply)
            case "GET":
                self.lists += 1
                stored = [json.dumps(each).encode() for each in self.written.values()]
                items = b",".join([*self.listed, *stored])
                self.listed = []
                text = b'{"metadata":{"resourceVersion":"1"},"items":[%b]}' % items
                await reply.answer(200, text)
            case "DELETE":
                self.deleted.add(name)
                await reply.answer(200, {})
            case _:
                item: Json = json.loads(request.body)
                item["metadata"]["resourceVersion"] = "100"
                self.written[item["metadata"]["name"]] = item
                await reply.answer(200, item)

    async def _watch(self, reply: Reply) -> None:
        await reply.begin()
        lines = [b'{"type":"MODIFIED","object":%b}\n' % each for each in self.changed]
        self.changed = []
        await reply.chunk(b"".join([*lines, _event(a_slice("extra", 99))]))
        await asyncio.sleep(60)


def _event(item: Json) -> bytes:
    return json.dumps({"type": "ADDED", "object": item}).encode() + b"\n"


def attack(listed: Sequence[bytes], changed: Sequence[bytes]) -> None:
    """Publish beside hostile slices: our own slice is written, and the last event arrives."""

    async def scenario() -> None:
        slices = Slices(listed, changed)
        async with serving(slices) as server:
            port = int(server.server.rpartition(":")[2])
            credentials = AgentCredentials("127.0.0.1", port, None)
            publisher = SlicePublisher(SliceServer(credentials, "n1"), lambda: OURS)
            task = asyncio.ensure_future(publisher.run())
            await until(
                lambda: task.done() or (NAME in slices.written and "extra" in slices.deleted)
            )
            ended = task.done()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            if ended:
                task.result()
            if all(map(is_json, (*listed, *changed))):
                assert slices.lists == 1

    asyncio.run(scenario())


def is_json(text: bytes) -> bool:
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def hostile_slice(path: FieldPath, value: str, number: int) -> bytes:
    """Every second one has the name of our own slice."""
    name = NAME if number % 2 else f"slice-{number}"
    return with_value(a_slice(name, number + 2), path, VALUES[value])


VALUES_OF_SLICES = st.lists(
    st.tuples(st.sampled_from(SLICE_FIELDS), st.sampled_from(NAMES)), max_size=9
)


@FEW
@given(VALUES_OF_SLICES, VALUES_OF_SLICES)
def test_no_slice_ends_the_watch_or_keeps_ours_from_being_published(
    listed: list[tuple[FieldPath, str]], changed: list[tuple[FieldPath, str]]
) -> None:
    first = [hostile_slice(path, value, at) for at, (path, value) in enumerate(listed)]
    then = [hostile_slice(path, value, at) for at, (path, value) in enumerate(changed)]

    attack(first, then)


@pytest.mark.parametrize("number", range(4))
def test_each_field_of_a_slice_is_fed(number: int) -> None:
    found = [
        hostile_slice(path, NAMES[at % len(NAMES)], at) for at, path in enumerate(SLICE_FIELDS)
    ][number::4]
    found = [each for each in found if is_json(each)]

    attack(found[::2], found[1::2])


# --- claims and pods ------------------------------------------------------------------------------


def prepare(claim: bytes, pod: bytes) -> None:
    """Let the kubelet ask for a claim, both of which may be hostile, and then for a good one."""
    with TemporaryDirectory() as folder:
        node = DriverNode(Path(folder))
        bad, good = (node.add_claim(name, grant(1, 8)) for name in ("bad", "good"))
        node.commit(bad, grant(1, 8))
        node.commit(good, grant(1, 8))
        preparer = node.preparer()
        with suppress(UnreadableError):
            node.objects.claims["bad"] = Decoder(ResourceClaim).decode(claim)
        with suppress(UnreadableError):
            node.objects.pods["train"] = Decoder(ClaimingPod).decode(pod)
        with suppress(GrantError, OSError):
            asyncio.run(preparer.prepare(bad))
        node.add_pod(main=[{"name": "good"}])
        assert asyncio.run(preparer.prepare(good))


def a_claim() -> Json:
    result = {
        "request": "r0", "driver": DRIVER, "pool": "n1", "device": "gpu-1", "shareID": "share-0"
    }  # fmt: skip
    reserved = [{"resource": "pods", "name": "train", "uid": POD_UID}]
    return {
        "metadata": {"name": "bad", "namespace": NAMESPACE, "uid": "uid-bad"},
        "status": {"allocation": {"devices": {"results": [result]}}, "reservedFor": reserved},
    }


def a_pod() -> Json:
    container = {"name": "main", "resources": {"claims": [{"name": "bad"}]}}
    claims = [{"name": "bad", "resourceClaimName": "bad"}]
    return {
        "metadata": {"name": "train", "namespace": NAMESPACE, "uid": POD_UID},
        "spec": {"containers": [container], "resourceClaims": claims},
    }


OF_CLAIM = st.tuples(st.sampled_from(CLAIM_FIELDS), st.sampled_from(NAMES))
OF_POD = st.tuples(st.sampled_from(POD_FIELDS), st.sampled_from(NAMES))


@settings(max_examples=MOST if MOST > 1000 else 30)
@given(OF_CLAIM, OF_POD)
def test_a_hostile_claim_or_pod_is_an_error_of_that_claim(
    claim: tuple[FieldPath, str], pod: tuple[FieldPath, str]
) -> None:
    prepare(with_value(a_claim(), claim[0], VALUES[claim[1]]), json.dumps(a_pod()).encode())
    prepare(json.dumps(a_claim()).encode(), with_value(a_pod(), pod[0], VALUES[pod[1]]))


def test_each_field_of_a_claim_and_of_a_pod_is_fed() -> None:
    for at, path in enumerate(CLAIM_FIELDS):
        prepare(with_value(a_claim(), path, VALUES[NAMES[at % len(NAMES)]]), b"null")
    for at, path in enumerate(POD_FIELDS):
        claim = json.dumps(a_claim()).encode()
        prepare(claim, with_value(a_pod(), path, VALUES[NAMES[at % len(NAMES)]]))
