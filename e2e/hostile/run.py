"""One run: hostile and honest clients together, and what the service occupies meanwhile."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from e2e.hostile.calls import CALLERS
from e2e.hostile.clients import ATTACKS
from e2e.hostile.honest import REQUESTS, WrongError
from e2e.hostile.target import Sample, Target, serving

GROWTH = 64 << 20
"""Bytes that the memory may have grown at the end: less than the largest body, once."""

EXTRA = 8
"""Open files, threads and tasks that there may be more at the end."""

CLIENTS = 3
"""Hostile clients at a time."""

PAUSE = 0.2
"""Seconds between two requests of an honest client."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How long, and how.

    Attributes:
        seconds: of the attack that is measured.
        warm: seconds of the attack before that, in which caches fill.
        settle: seconds without a hostile client, before each of the two measurements.
        seed: chooses all requests.
        leak: as ``serving`` takes it.
    """

    seconds: float
    warm: float
    settle: float
    seed: int = 0
    leak: str = ""


@dataclass(slots=True)
class Result:
    """What was seen.

    Attributes:
        attacks: that ended.
        answered: honest rounds that were answered as they must be.
        slowest: seconds of the slowest one.
        peak: bytes of memory, the most of all samples.
        before: after the warm-up, settled.
        after: at the end, settled.
        faults: what must not be; empty for a clean run.
    """

    attacks: int = 0
    answered: int = 0
    slowest: float = 0
    peak: int = 0
    before: Sample | None = None
    after: Sample | None = None
    faults: list[str] = field(default_factory=list[str])

    def line(self) -> str:
        """One line."""
        parts = [
            f"{'FAILED' if self.faults else 'clean'}: {self.attacks} attacks",
            f"{self.answered} rounds of honest requests, the slowest {self.slowest:.1f} s",
            f"peak {self.peak >> 20} MiB",
        ]
        if self.before is not None and self.after is not None:
            pairs = (
                ("memory MiB", self.before.resident >> 20, self.after.resident >> 20),
                ("files", self.before.files, self.after.files),
                ("threads", self.before.threads, self.after.threads),
                ("tasks", self.before.tasks, self.after.tasks),
            )
            parts += [f"{name} {first} -> {last}" for name, first, last in pairs]
        return "; ".join([*parts, *self.faults[:5]])


def run(folder: Path, plan: Plan, show: Callable[[str], None] = lambda _: None) -> Result:
    """Attack a service of its own; it ends by itself.

    Args:
        folder: for the files of the service, with a short path.
        plan: how long, and how.
        show: gets a line now and then.
    """
    result = Result()
    with serving(folder, plan.leak) as target:
        try:
            _attack(target, plan.warm, plan.seed, result, show)
            result.before = _settled(target, plan.settle)
            if not result.faults:
                _attack(target, plan.seconds, plan.seed + 1, result, show)
            result.after = _settled(target, plan.settle)
        except OSError as error:
            result.faults.append(f"no sample: {error!r}")
        if target.process.poll() is not None:
            result.faults.insert(0, f"the process ended with {target.process.returncode}")
        elif result.before is not None and result.after is not None:
            result.faults += _grown(result.before, result.after)
        if b"Traceback" in target.log.read_bytes():
            result.faults.append("a traceback is in the log")
    return result


def _attack(
    target: Target, seconds: float, seed: int, result: Result, show: Callable[[str], None]
) -> None:
    """Run all clients for ``seconds`` seconds."""
    ended = threading.Event()
    end = time.monotonic() + seconds
    dice = [Random(f"{seed} {at}") for at in range(CLIENTS + len(REQUESTS))]  # noqa: S311
    hostile = [
        threading.Thread(target=_hostile, args=(target, each, ended, result), daemon=True)
        for each in dice[:CLIENTS]
    ]
    honest = [
        threading.Thread(target=_honest, args=(target, each, request, ended, result), daemon=True)
        for each, request in zip(dice[CLIENTS:], REQUESTS, strict=True)
    ]
    for each in (*hostile, *honest):
        each.start()
    shown = time.monotonic()
    try:
        while time.monotonic() < end and not result.faults and target.process.poll() is None:
            time.sleep(min(1.0, seconds))
            sample = target.sample()
            result.peak = max(result.peak, sample.resident)
            if time.monotonic() - shown > 60:
                shown = time.monotonic()
                show(f"{sample}; {result.attacks} attacks, {result.answered} honest rounds")
    finally:
        ended.set()
        for each in (*hostile, *honest):
            if not result.faults:  # the end of the service ends them too
                each.join()


def _hostile(target: Target, random: Random, ended: threading.Event, result: Result) -> None:
    while not ended.is_set():
        attack = random.choice((*ATTACKS, *CALLERS))
        try:
            attack(target, random)
        except OSError:
            time.sleep(0.01)  # a full port refuses hostile clients too
        result.attacks += 1


def _honest(
    target: Target,
    random: Random,
    request: Callable[[Target, Random], None],
    ended: threading.Event,
    result: Result,
) -> None:
    while not ended.is_set():
        begin = time.monotonic()
        try:
            request(target, random)
        except WrongError as error:
            result.faults.append(f"{request.__name__}: {error}")
            return
        result.answered += 1
        result.slowest = max(result.slowest, time.monotonic() - begin)
        ended.wait(PAUSE)


def _settled(target: Target, seconds: float) -> Sample:
    """The least of what the service occupies in a time without requests."""
    samples: list[Sample] = []
    end = time.monotonic() + seconds
    while not samples or time.monotonic() < end:
        samples.append(target.sample())
        time.sleep(min(1.0, seconds / 4))
    latest = samples[len(samples) // 2 :]
    return Sample(
        min(each.resident for each in latest),
        min(each.files for each in latest),
        min(each.threads for each in latest),
        min(each.tasks for each in latest),
    )


def _grown(before: Sample, after: Sample) -> list[str]:
    allowed = {"resident": GROWTH, "files": EXTRA, "threads": EXTRA, "tasks": EXTRA}
    return [
        f"{name} grew from {first} to {last}, by more than {most}"
        for name, most in allowed.items()
        for first, last in [(getattr(before, name), getattr(after, name))]
        if last - first > most
    ]
