"""The memory of long requests goes back to the system."""

import asyncio
from pathlib import Path

import psutil

from adapters.sidecar.memory import EVERY, FreedMemory
from adapters.sidecar.tests.process import serving
from adapters.tests.waiting import within

MIB = 1 << 20


def test_memory_is_returned_after_long_requests_and_not_all_the_time() -> None:
    now, read, trimmed = [0.0], [0], list[int]()
    freed = FreedMemory(lambda: read[0], lambda: now[0])

    def trim(kept: int) -> int:
        trimmed.append(kept)
        return 1

    freed._trim = trim

    async def work() -> None:
        await freed.give_back()
        assert trimmed == []
        read[0] = 1
        await freed.give_back()
        await freed.give_back()
        assert trimmed == [0]
        read[0] = 2
        await freed.give_back()
        assert trimmed == [0]
        now[0] = EVERY
        await freed.give_back()
        assert trimmed == [0, 0]

    asyncio.run(work())


def test_pods_of_60_mb_do_not_stay(tmp_path: Path) -> None:
    """20 of them left 1,273 MiB, and decoded ones of tiny values gigabytes."""
    with serving(tmp_path, "--store", "memory") as running:
        process = psutil.Process(running.process.pid)
        running.get("/api/nodes")
        before = process.memory_info().rss
        head = '{"Pod":{"metadata":{"name":"a","annotations":{"a":"'
        bodies = [
            head + "x" * 60_000_000 + '"}}},"NodeNames":["nvidia-1"]}',
            '{"Pod":{"spec":{"containers":[' + "{}," * 20_000_000 + '{}]}},"NodeNames":["n"]}',
        ]
        for text in bodies * 3:
            with running.connect() as wire:
                request = (
                    f"POST /extender/filter HTTP/1.1\r\nHost: x\r\nContent-Length: {len(text)}"
                )
                wire.sendall(f"{request}\r\n\r\n{text}".encode())
                assert wire.recv(1000).startswith(b"HTTP/1.1 400 ")

        within(30, lambda: process.memory_info().rss - before < 32 * MIB)
