"""The keeper's looks, against a Secret and configurations of our own making."""

import asyncio
from dataclasses import dataclass, field

import pytest

from adapters.sidecar.certificates import record
from adapters.sidecar.certificates.keeper import CertificateRotator
from adapters.sidecar.certificates.rotation import CertificateSet, RotationPolicy

PLAN = RotationPolicy(("dragoman.svc",), authority=7200, leaf=3600, overlap=60)


@dataclass
class World:
    """A Secret that is compared by its version, configurations, and a clock."""

    data: dict[str, str] = field(default_factory=dict[str, str])
    version: int = 1
    wish: bool = False
    published: str = ""
    now: int = 1_800_000_000
    told: list[str] = field(default_factory=list[str])
    unreachable: bool = False

    async def read(self) -> tuple[record.Data, str, bool]:
        return dict(self.data), str(self.version), self.wish

    async def write(self, data: dict[str, str | None], version: str, *, fulfilled: bool) -> None:
        assert version == str(self.version)
        self.version += 1
        merged = {**self.data, **data}
        self.data = {name: text for name, text in merged.items() if text is not None}
        self.wish = self.wish and not fulfilled

    async def publish(self, bundle: str) -> bool:
        if self.unreachable:
            raise OSError("nobody there")
        known, self.published = self.published == bundle, bundle
        return known

    def keys(self) -> CertificateSet:
        found = record.read(self.data)
        assert found is not None
        return found

    def keeper(self) -> CertificateRotator:
        return CertificateRotator(
            self, self, PLAN, lambda: self.now, lambda event, _: self.told.append(event)
        )

    async def settle(self) -> None:
        """Look until there is nothing more to do at once."""
        keeper = self.keeper()
        for _ in range(10):
            before = self.version
            again = await keeper.look()
            if not again and before == self.version:
                return


def test_an_empty_secret_gets_keys_and_the_configurations_their_authority() -> None:
    world = World()

    asyncio.run(world.settle())

    assert world.published == world.keys().bundle
    assert world.data["ca.crt"] == world.published
    assert world.told == ["certificate.made"]


def test_a_wish_is_fulfilled_in_three_steps_and_is_no_more() -> None:
    world = World()

    async def main() -> list[str]:
        await world.settle()
        world.wish = True
        phases = []
        for _ in range(6):
            await world.settle()
            phases.append(world.keys().phase)
            world.now += 60
        return phases

    phases = asyncio.run(main())

    # Announced, seen where it is needed, and from then on an overlap for each step.
    assert phases == ["announced", "announced", "switched", "steady", "steady", "steady"]
    assert not world.wish
    assert world.published == world.keys().bundle == world.keys().authority.certificate


def test_a_wish_in_the_middle_of_a_change_waits_for_its_end() -> None:
    world = World()

    async def main() -> None:
        await world.settle()
        world.wish = True
        await world.settle()
        world.wish = True
        for _ in range(2):
            world.now += 60
            await world.settle()

    asyncio.run(main())

    assert world.keys().phase == "switched"
    assert world.wish


def test_configurations_that_somebody_put_back_are_corrected_and_the_time_begins_anew() -> None:
    world = World()

    async def main() -> None:
        await world.settle()
        world.wish = True
        await world.settle()
        world.now += 59
        world.published = ""
        await world.settle()
        world.now += 59
        await world.settle()

    asyncio.run(main())

    assert world.keys().phase == "announced"


def test_what_goes_wrong_is_told_once_and_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adapters.sidecar.certificates.keeper.LONGEST", 0.01)
    world = World(unreachable=True)

    async def main() -> None:
        task = asyncio.create_task(world.keeper().run())
        await asyncio.sleep(0.1)
        told = list(world.told)
        world.unreachable = False
        while world.published == "":
            await asyncio.sleep(0.01)
        task.cancel()
        assert told == ["certificate.made", "certificate.failed"]

    asyncio.run(main())
