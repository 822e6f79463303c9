"""Disruption budgets, page by page."""

import asyncio

from adapters.cluster.objects.pods import PodClient
from adapters.cluster.tests.server import client, ok, serving


def test_all_pages_are_read() -> None:
    def page(name: str, following: str) -> object:
        return {"metadata": {"continue": following}, "items": [{"metadata": {"name": name}}]}

    async def main() -> tuple[list[str], list[str | None]]:
        async with (
            serving(ok(page("a", "more")), ok(page("b", ""))) as server,
            client(server) as api,
        ):
            found = await PodClient(api).budgets()
            return [one.metadata.name for one in found], [
                r.query.get("continue") for r in server.requests
            ]

    names, asked = asyncio.run(main())

    assert names == ["a", "b"]
    assert asked == [None, "more"]
