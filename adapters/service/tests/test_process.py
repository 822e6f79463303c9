"""Freed memory goes back to the system."""

import asyncio
import gc
import weakref
from pathlib import Path

import psutil

from adapters.service.runtime import EVERY, GROWTH, FreedMemory
from adapters.service.tests.process import serving
from e2e.harness.processes.waiting import within

MIB = 1 << 20


class Circle:
    """An object that refers to itself, with some memory."""

    def __init__(self) -> None:
        self.own = self
        self.content = bytes(1000)


def test_memory_is_returned_where_the_process_has_grown_and_not_all_the_time() -> None:
    now, size, trimmed = [0.0], [GROWTH], list[int]()
    freed = FreedMemory(lambda: size[0], lambda: now[0])

    def trim(kept: int) -> int:
        trimmed.append(kept)
        return 1

    freed._trim = trim
    unused = weakref.ref(Circle())

    async def after(seconds: float, grown: int) -> tuple[int, bool]:
        now[0] += seconds
        size[0] += grown
        await freed.give_back()
        return len(trimmed), unused() is not None

    async def work() -> list[tuple[int, bool]]:
        gc.disable()
        try:
            return [
                await after(EVERY, GROWTH - 1),
                await after(EVERY - 1, 1),
                await after(1, 0),
                await after(EVERY, GROWTH - 1),
                await after(EVERY, -GROWTH),
                await after(EVERY, GROWTH),
            ]
        finally:
            gc.enable()

    steps = asyncio.run(work())

    assert steps == [(0, True), (0, True), (1, False), (1, False), (1, False), (2, False)]


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
