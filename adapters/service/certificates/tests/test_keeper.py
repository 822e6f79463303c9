"""The rotator against a small Secret and CA bundles."""

import asyncio
from dataclasses import dataclass, field

import pytest

from adapters.service.certificates import record
from adapters.service.certificates.keeper import CertificateRotator
from adapters.service.certificates.rotation import CertificateSet, RotationPolicy
from adapters.tests.waiting import until

PLAN = RotationPolicy(("dragoman.svc",), authority=7200, leaf=3600, overlap=60)


@dataclass
class World:
    """A Secret that is compared by its version, configurations, and a clock."""

    data: dict[str, str] = field(default_factory=dict[str, str])
    version: int = 1
    requested: bool = False
    published: str = ""
    now: int = 1_800_000_000
    events: list[str] = field(default_factory=list[str])
    unreachable: bool = False
    failures: int = 0

    async def read(self) -> tuple[record.Data, str, bool]:
        return dict(self.data), str(self.version), self.requested

    async def write(self, data: dict[str, str | None], version: str, *, fulfilled: bool) -> None:
        assert version == str(self.version)
        self.version += 1
        merged = {**self.data, **data}
        self.data = {name: text for name, text in merged.items() if text is not None}
        self.requested = self.requested and not fulfilled

    async def publish(self, bundle: str) -> bool:
        if self.unreachable:
            self.failures += 1
            raise OSError("no answer")
        unchanged, self.published = self.published == bundle, bundle
        return unchanged

    def keys(self) -> CertificateSet:
        keys = record.read(self.data)
        assert keys is not None
        return keys

    def rotator(self) -> CertificateRotator:
        return CertificateRotator(
            self, self, PLAN, lambda: self.now, lambda event, _: self.events.append(event)
        )

    async def settle(self) -> None:
        """Take steps until none is due."""
        rotator = self.rotator()
        for _ in range(10):
            before = self.version
            again = await rotator.step()
            if not again and before == self.version:
                return


def test_an_empty_secret_gets_keys_and_the_ca_bundles_their_authority() -> None:
    world = World()

    asyncio.run(world.settle())

    assert world.published == world.keys().bundle
    assert world.data["ca.crt"] == world.published
    assert world.events == ["certificate.made"]


def test_a_requested_authority_comes_in_three_steps_and_the_request_is_removed() -> None:
    world = World()

    async def main() -> list[str]:
        await world.settle()
        world.requested = True
        phases = []
        for _ in range(6):
            await world.settle()
            phases.append(world.keys().phase)
            world.now += 60
        return phases

    phases = asyncio.run(main())

    # Announced, seen in all CA bundles, and from then on an overlap for each step.
    assert phases == ["announced", "announced", "switched", "steady", "steady", "steady"]
    assert not world.requested
    assert world.published == world.keys().bundle == world.keys().authority.certificate


def test_a_request_during_a_rotation_waits_for_its_end() -> None:
    world = World()

    async def main() -> None:
        await world.settle()
        world.requested = True
        await world.settle()
        world.requested = True
        for _ in range(2):
            world.now += 60
            await world.settle()

    asyncio.run(main())

    assert world.keys().phase == "switched"
    assert world.requested


def test_overwritten_ca_bundles_are_restored_and_the_overlap_starts_again() -> None:
    world = World()

    async def main() -> None:
        await world.settle()
        world.requested = True
        await world.settle()
        world.now += 59
        world.published = ""
        await world.settle()
        world.now += 59
        await world.settle()

    asyncio.run(main())

    assert world.keys().phase == "announced"


def test_an_error_is_reported_once_and_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adapters.service.certificates.keeper.LONGEST", 0.01)
    world = World(unreachable=True)

    async def main() -> None:
        task = asyncio.create_task(world.rotator().run())
        await until(lambda: world.failures > 3)
        events = list(world.events)
        world.unreachable = False
        await until(lambda: world.published)
        task.cancel()
        assert events == ["certificate.made", "certificate.failed"]

    asyncio.run(main())
