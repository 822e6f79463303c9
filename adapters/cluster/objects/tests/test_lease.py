"""An election, with a server that can be taken away."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from adapters.cluster.api.client import KubeClient
from adapters.cluster.api.credentials import KubeCredentials
from adapters.cluster.api.transport import Query
from adapters.cluster.objects.lease import Election, LeaseTiming
from adapters.cluster.tests.objects import Objects
from adapters.cluster.tests.server import QUICK, Reply, Request, client, serving
from adapters.tests.waiting import until

LEASE = "/apis/coordination.k8s.io/v1/namespaces/n/leases/l"
TERM = LeaseTiming(duration=2.0, renew=0.6, retry=0.05)
# Where the machine's own delays must not look like the server's.
PATIENT = LeaseTiming(duration=20.0, renew=10.0, retry=0.2)
# One that starts again takes its lease back after three seconds. Others look once or twice until
# then, and may need each look.
OFFERING = LeaseTiming(duration=20.0, renew=10.0, retry=1.0)
SELDOM = LeaseTiming(duration=20.0, renew=10.0, retry=1.6)
HASTY = LeaseTiming(duration=20.0, renew=0.6, retry=0.05)

Test = Callable[[Callable[[str], Election], Objects], Awaitable[None]]


def run(test: Test, term: LeaseTiming = TERM) -> None:
    async def main() -> None:
        objects = Objects()
        async with serving(objects) as server, client(server) as api:
            await test(lambda name: Election(api, "n", "l", name, term), objects)

    asyncio.run(main())


async def stop(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def work() -> None:
    await asyncio.sleep(3600)


def more_requests(objects: Objects, than: int) -> bool:
    return objects.requests > than


def holder(objects: Objects) -> str:
    return str(objects.at[LEASE]["spec"].get("holderIdentity", ""))


def test_of_many_candidates_one_leads_at_a_time() -> None:
    async def test(candidate: Callable[[str], Election], objects: Objects) -> None:
        elections = [candidate(f"c{number}") for number in range(5)]
        tasks = [asyncio.create_task(each.run(work)) for each in elections]
        led = []
        for _ in elections:
            await until(lambda: any(each.leading for each in elections))
            (leader,) = [each for each in elections if each.leading]
            led.append(leader)
            seen = objects.requests
            await until(partial(more_requests, objects, seen + 4 * len(elections)))
            assert [each for each in elections if each.leading] == [leader]
            await stop(tasks[elections.index(leader)])
        assert set(led) == set(elections)
        assert holder(objects) == ""
        assert objects.at[LEASE]["spec"]["leaseTransitions"] == 4

    run(test, PATIENT)


def test_a_leader_that_cannot_renew_stops_before_another_may_begin() -> None:
    async def test(candidate: Callable[[str], Election], objects: Objects) -> None:
        loop = asyncio.get_running_loop()
        stopped = 0.0

        async def job() -> None:
            nonlocal stopped
            try:
                await work()
            finally:
                stopped = loop.time()

        election = candidate("a")
        task = asyncio.create_task(election.run(job))
        await until(lambda: election.leading)
        objects.down, began = True, loop.time()
        await until(lambda: stopped > 0)
        assert stopped - began < HASTY.duration
        assert not election.leading
        objects.down = False
        await until(lambda: election.leading)
        await stop(task)

    run(test, HASTY)


def test_a_short_failure_of_the_server_costs_no_leadership() -> None:
    async def test(candidate: Callable[[str], Election], objects: Objects) -> None:
        election = candidate("a")
        task = asyncio.create_task(election.run(work))
        await until(lambda: election.leading)
        objects.down = True
        await until(lambda: objects.refused > 1)
        objects.down = False
        renewed = objects.at[LEASE]["spec"]["renewTime"]
        await until(lambda: objects.at[LEASE]["spec"]["renewTime"] != renewed)
        assert election.leading
        assert objects.at[LEASE]["spec"]["leaseTransitions"] == 0
        await stop(task)

    run(test, PATIENT)


def test_an_error_of_the_work_is_raised_and_the_lease_released() -> None:
    async def test(candidate: Callable[[str], Election], objects: Objects) -> None:
        async def job() -> None:
            raise RuntimeError("broken work")

        with pytest.raises(RuntimeError, match="broken work"):
            await candidate("a").run(job)
        assert holder(objects) == ""

    run(test)


class Deaf(KubeClient):
    """Loses the cancellation of a request: the answer has come, and that is all that counts."""

    async def replace(
        self,
        path: str,
        body: object,
        query: Query | None = None,
        *,
        metadata_only: bool = False,
    ) -> bytes:
        asking = asyncio.ensure_future(
            super().replace(path, body, query, metadata_only=metadata_only)
        )
        try:
            return await asyncio.shield(asking)
        except asyncio.CancelledError:
            return await asking


def test_a_leader_whose_cancellation_gets_lost_in_a_request_releases_the_lease() -> None:
    async def main() -> None:
        objects = Objects()
        renewing = asyncio.Event()

        async def slow(request: Request, reply: Reply) -> None:
            if request.method == "PUT":
                renewing.set()
                await asyncio.sleep(0.05)
            await objects(request, reply)

        async with serving(slow) as server, Deaf(KubeCredentials(server.server), QUICK) as api:
            task = asyncio.create_task(Election(api, "n", "l", "a", TERM).run(work))
            async with asyncio.timeout(30):
                await renewing.wait()
                await stop(task)
        assert task.cancelled()
        assert holder(objects) == ""

    asyncio.run(main())


def test_a_candidate_that_ends_while_it_acquires_the_lease_releases_it() -> None:
    async def main() -> None:
        objects = Objects()

        async def slow(request: Request, reply: Reply) -> None:
            status, body = objects.answer(request)
            if request.method == "POST":
                await asyncio.sleep(3600)
            await reply.answer(status, body)

        async with serving(slow) as server, client(server) as api:
            task = asyncio.create_task(Election(api, "n", "l", "a", OFFERING).run(work))
            await until(lambda: LEASE in objects.at)
            await stop(task)
        assert holder(objects) == ""

    asyncio.run(main())


def held_by(name: str, renewed: str, seconds: int = 15) -> dict[str, object]:
    spec = {"holderIdentity": name, "leaseDurationSeconds": seconds, "renewTime": renewed}
    return {"metadata": {"name": "l", "namespace": "n", "resourceVersion": renewed}, "spec": spec}


def test_one_that_has_followed_a_leader_takes_at_its_first_look_what_that_offers() -> None:
    async def test(candidate: Callable[[str], Election], objects: Objects) -> None:
        objects.at[LEASE] = held_by("a", "1")
        follower = candidate("b")
        follower._term = SELDOM
        tasks = [asyncio.create_task(follower.run(work))]
        await until(partial(more_requests, objects, objects.requests + 2))
        objects.at[LEASE] = held_by("a", "2")
        await until(partial(more_requests, objects, objects.requests + 2))
        again = candidate("a")
        tasks.append(asyncio.create_task(again.run(work)))
        await until(lambda: follower.leading or again.leading)
        assert follower.leading
        assert not follower.took_over
        await stop(*tasks)

    run(test, OFFERING)


@pytest.mark.parametrize("holder_before", ["a", "x"])
def test_a_leader_whose_first_write_has_no_answer_knows_that_it_has_not_followed(
    holder_before: str,
) -> None:
    """Whether it offers the lease first, or takes it."""

    async def main() -> None:
        objects = Objects()
        objects.at[LEASE] = held_by(holder_before, "1", 2)
        lost = False

        async def losing(request: Request, reply: Reply) -> None:
            nonlocal lost
            status, body = objects.answer(request)
            if request.method == "PUT" and not lost:
                lost, status, body = True, 422, {}  # the client does not ask again
            await reply.answer(status, body)

        async with serving(losing) as server, client(server) as api:
            election = Election(api, "n", "l", "a", TERM)
            task = asyncio.create_task(election.run(work))
            await until(lambda: election.leading)
            assert lost
            assert election.took_over
            await stop(task)

    asyncio.run(main())


def test_one_that_saw_a_leader_once_has_not_followed_it_when_that_offers_its_lease() -> None:
    async def test(candidate: Callable[[str], Election], objects: Objects) -> None:
        objects.at[LEASE] = held_by("x", "1")
        election = candidate("a")
        task = asyncio.create_task(election.run(work))
        await until(partial(more_requests, objects, objects.requests + 2))
        objects.at[LEASE] = held_by("x", "1", 1)
        await until(lambda: election.leading)
        assert election.took_over
        await stop(task)

    run(test, PATIENT)


def test_a_candidate_releases_no_lease_that_it_held_before_it_started_again() -> None:
    async def test(candidate: Callable[[str], Election], objects: Objects) -> None:
        objects.at[LEASE] = held_by("a", "1")
        task = asyncio.create_task(candidate("a").run(work))
        await until(partial(more_requests, objects, objects.requests + 2))
        await stop(task)
        assert holder(objects) == "a"

    run(test, PATIENT)


@pytest.mark.parametrize(
    ("holders", "expected"),
    [
        pytest.param([], False, id="created"),
        pytest.param([("", "1")], False, id="released"),
        pytest.param([("x", "1")], True, id="never seen to renew"),
        pytest.param([("x", "1"), ("x", "2")], False, id="seen to renew"),
        pytest.param([("x", "1"), ("x", "2"), ("y", "3")], True, id="another since"),
        pytest.param([("a", "1")], True, id="itself before it started again"),
    ],
)
def test_a_leader_knows_whether_it_has_followed_the_one_before_until_its_end(
    holders: list[tuple[str, str]],
    expected: bool,
) -> None:
    async def test(candidate: Callable[[str], Election], objects: Objects) -> None:
        election = candidate("a")
        tasks: list[asyncio.Task[None]] = []
        for name, renewed in holders:
            objects.at[LEASE] = held_by(name, renewed, 2)
            seen = objects.requests
            tasks = tasks or [asyncio.create_task(election.run(work))]
            await until(partial(more_requests, objects, seen + 2))
        tasks = tasks or [asyncio.create_task(election.run(work))]
        await until(lambda: election.leading)
        assert election.took_over is expected
        await stop(*tasks)

    run(test)
