"""The rotator against a small Secret and CA bundles."""

import asyncio
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from adapters.cluster.objects.certificates import SecretClient, SecretContent
from adapters.service.certificates.authority import make_authority, sign
from adapters.service.certificates.rotation import CertificateSet, RotationPolicy, read_secret
from adapters.service.certificates.tls_context import CertificateText
from adapters.service.in_cluster.certificate import ROTATE, CertificateRotator, ServedCertificate
from adapters.tests.waiting import until
from adapters.wire.kube import Metadata, Secret

NOW = 1_800_000_000
PLACE = ("ns", "tls")
PLAN = RotationPolicy(("dragoman.svc",), authority=7200, leaf=3600, overlap=60)


@dataclass
class World(SecretClient):
    """A Secret that is compared by its version, configurations, and a clock."""

    data: dict[str, str] = field(default_factory=dict[str, str])
    version: int = 1
    requested: bool = False
    published: str = ""
    now: int = NOW
    events: list[str] = field(default_factory=list[str])
    unreachable: bool = False
    failures: int = 0

    async def get(self, namespace: str, name: str) -> SecretContent:
        assert (namespace, name) == PLACE
        annotations = {ROTATE: ""} if self.requested else {}
        return SecretContent(dict(self.data), str(self.version), annotations)

    async def change(
        self,
        namespace: str,
        name: str,
        version: str,
        data: Mapping[str, str | None],
        annotations: Mapping[str, str | None],
    ) -> None:
        assert (namespace, name, version) == (*PLACE, str(self.version))
        self.version += 1
        merged = {**self.data, **data}
        self.data = {name: text for name, text in merged.items() if text is not None}
        self.requested = self.requested and ROTATE not in annotations

    async def publish(self, bundle: str) -> bool:
        if self.unreachable:
            self.failures += 1
            raise OSError("no answer")
        unchanged, self.published = self.published == bundle, bundle
        return unchanged

    def keys(self) -> CertificateSet:
        keys = read_secret(self.data)
        assert keys is not None
        return keys

    def rotator(self) -> CertificateRotator:
        return CertificateRotator(
            self,
            PLACE,
            self.publish,
            PLAN,
            lambda: self.now,
            lambda event, _: self.events.append(event),
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
    monkeypatch.setattr("adapters.service.in_cluster.certificate.LONGEST", 0.01)
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


def test_a_valid_certificate_in_the_secret_is_served_and_an_invalid_one_reported() -> None:
    events: list[str] = []
    served = ServedCertificate(
        CertificateText(None), lambda: events.append("ready"), lambda e, _: events.append(e)
    )
    pair = sign(make_authority(NOW, 1000), ["localhost"], NOW, 100)

    def update(certificate: str, key: str) -> None:
        texts = {"tls.crt": certificate, "tls.key": key}
        data = {name: b64encode(text.encode()).decode() for name, text in texts.items() if text}
        served.on_update(Secret(Metadata(name="s"), data))

    update("", "")
    assert (events, served.ends) == ([], 0)
    update(pair.certificate, pair.key)
    update(pair.certificate, pair.key)
    assert (events, served.ends) == (["certificate.taken", "ready"], NOW + 100)
    update("x", "y")
    update(pair.certificate, "y")
    served.on_delete(Metadata(name="s"))
    served.on_unreadable(Metadata(name="s"), "odd")
    served.on_synced()
    assert events[2:] == ["certificate.unusable"] * 2 + ["certificate.lost", "certificate.unusable"]
    assert served.ends == NOW + 100
