"""What the handlers of the watches know of lists and events."""

import asyncio

from adapters.accounting.claim_cache import ClaimCache
from adapters.cluster.api.paths import RESOURCE_CLAIMS
from adapters.cluster.tests.server import client, serving
from adapters.service.in_cluster.tests.test_tasks import WatchedObjects
from adapters.service.in_cluster.watches import Watches
from adapters.service.observe.decision_log import logger
from adapters.service.tests.builders import a_service
from adapters.wire.kube import Metadata


def test_what_a_claim_had_before_it_was_listed_is_not_known() -> None:
    cache, objects = ClaimCache(lambda _: None), WatchedObjects()

    def put(name: str) -> Metadata:
        claim = {"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": {}}
        made = objects.put(RESOURCE_CLAIMS.path(name, "default"), claim)
        version = made["metadata"]["resourceVersion"]
        return Metadata(name=name, uid=name, resource_version=version)

    async def followed() -> None:
        service = (await a_service()).service
        async with serving(objects) as server, client(server) as api, asyncio.timeout(10):
            found = Watches(api, logger("error", "json")).claims(cache, service)
            claims = found[RESOURCE_CLAIMS.plural]
            listed = put("listed")
            running = asyncio.create_task(claims.run())
            await claims.ready.wait()
            made = put("made")
            while not cache.never_had_devices(made):
                await asyncio.sleep(0.01)
            assert not cache.never_had_devices(listed)
            running.cancel()

    asyncio.run(followed())
