"""During every moment of a rotation clients accept the served certificate."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from adapters.service.certificates.authority import KeyPair, facts, make_authority
from adapters.service.certificates.rotation import (
    CertificateSet,
    RotationPolicy,
    advance,
    read_secret,
    write_secret,
)
from adapters.service.certificates.tests.clients import accepts

NOW = 1_800_000_000
NAME = "dragoman.dragoman-system.svc"
STILL = 1 << 60
PLAN = RotationPolicy((NAME,), authority=4800, leaf=1200, overlap=100)


def fresh() -> CertificateSet:
    return advance(None, NOW, PLAN, published=False)


@dataclass
class World:
    """One Secret, its rotator, and replicas and API servers that are late.

    Attributes:
        published: bundles, and from when to when each was in the configurations.
        served: certificates, and from when to when each was in the Secret.
    """

    now: int = NOW
    keys: CertificateSet = field(default_factory=fresh)
    forced: bool = False
    published: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    served: dict[str, list[int]] = field(default_factory=dict[str, list[int]])

    def step(self, *, reached: bool) -> None:
        """Publish, and take the next step if it is due."""
        published = reached and self.keys.bundle in self._last(self.published)
        if reached:
            self._stand(self.published, self.keys.bundle)
        following = advance(self.keys, self.now, PLAN, published=published, forced=self.forced)
        if following.phase == "announced":
            self.forced = False
        self.keys = replace(following)
        self._stand(self.served, self.keys.leaf.certificate)

    def pairs(self) -> Iterable[tuple[str, str]]:
        """Return what may be trusted now with what may be served now, each late by one overlap."""
        recent = self.now - PLAN.overlap
        return product(
            [text for text, (_, to) in self.published.items() if to > recent],
            [text for text, (_, to) in self.served.items() if to > recent],
        )

    def _stand(self, book: dict[str, list[int]], text: str) -> None:
        for period in book.values():
            period[1] = min(period[1], self.now)
        book[text] = [self.now, STILL]

    def _last(self, book: dict[str, list[int]]) -> set[str]:
        return {text for text, (_, to) in book.items() if to == STILL}


steps = st.lists(
    st.tuples(
        st.one_of(st.integers(1, 40), st.integers(1, 700)),
        st.booleans(),
        st.sampled_from([False, False, False, True]),
    ),
    min_size=5,
    max_size=60,
)


@given(steps)
def test_any_published_bundle_accepts_the_served_certificate_at_any_time(
    taken: list[tuple[int, bool, bool]],
) -> None:
    world = World()
    world.step(reached=True)

    for seconds, reached, forced in taken:
        world.now += seconds
        world.forced |= forced
        if facts(world.keys.authority.certificate).ends <= world.now:
            return  # no bundle could be published in the last third of its validity
        world.step(reached=reached)

        for bundle, leaf in world.pairs():
            # A certificate that was not renewed in time, because no step ran, has ended.
            if facts(leaf).ends > world.now:
                assert accepts(bundle, leaf, NAME, world.now)


def run(keys: CertificateSet, seconds: int, every: int = 10) -> list[CertificateSet]:
    """Return each set of keys in a time in which steps run regularly."""
    sets = [keys]
    for now in range(NOW, NOW + seconds, every):
        following = advance(sets[-1], now, PLAN, published=True)
        if following is not sets[-1]:
            sets.append(following)
    return sets


def test_an_authority_is_trusted_before_it_signs_and_after_it_signed() -> None:
    kept = run(fresh(), 2 * PLAN.authority)

    phases = [keys.phase for keys in kept]
    order = [phase for place, phase in enumerate(phases) if [phase] != phases[place - 1 : place]]
    assert order[:7] == ["steady", "announced", "switched"] * 2 + ["steady"]


def test_a_certificate_is_renewed_after_two_thirds_of_its_life() -> None:
    kept = run(fresh(), 1000)

    ends = [facts(keys.leaf.certificate).ends for keys in kept]
    assert ends == [NOW + 1200, NOW + 800 + 1200]
    assert {keys.bundle for keys in kept} == {kept[0].bundle}


def test_no_certificate_is_served_past_its_end_where_steps_run_in_time() -> None:
    keys = fresh()
    for now in range(NOW, NOW + 6 * PLAN.authority, 150):
        keys = advance(keys, now, PLAN, published=True)

        assert facts(keys.leaf.certificate).ends - now > 150
        assert facts(keys.authority.certificate).ends - now > 150


def test_a_new_authority_signs_only_after_its_bundle_was_published() -> None:
    keys = advance(fresh(), NOW, PLAN, published=True, forced=True)
    assert keys.phase == "announced"

    for later in range(0, 1000, 50):
        keys = advance(keys, NOW + later, PLAN, published=False)

    assert keys.phase == "announced"
    keys = advance(keys, NOW + 1000, PLAN, published=True)
    assert advance(keys, NOW + 1000 + 99, PLAN, published=True).phase == "announced"
    assert advance(keys, NOW + 1000 + 100, PLAN, published=True).phase == "switched"


def test_a_new_name_gets_a_new_certificate_of_the_same_authority() -> None:
    keys = fresh()

    named = advance(keys, NOW, replace(PLAN, names=(NAME, "127.0.0.1")), published=True)

    assert named.authority == keys.authority
    assert accepts(keys.bundle, named.leaf.certificate, "127.0.0.1", NOW)


def test_invalid_keys_are_replaced() -> None:
    keys, other = fresh(), make_authority(NOW, 100)

    for broken in (
        replace(keys, authority=KeyPair("x", "y")),
        replace(keys, authority=KeyPair(keys.authority.certificate, other.key)),
        replace(keys, authority=make_authority(NOW - 5000, 100)),
        replace(keys, next=KeyPair("x", "y")),
    ):
        assert advance(broken, NOW, PLAN, published=True).authority != broken.authority
    lost = replace(keys, leaf=KeyPair("x", "y"))
    assert advance(lost, NOW, PLAN, published=True).authority == keys.authority


@given(steps)
def test_keys_are_read_as_they_were_written(taken: list[tuple[int, bool, bool]]) -> None:
    world = World()
    for seconds, reached, forced in taken[:8]:
        world.now += seconds
        world.forced |= forced
        world.step(reached=reached)

    written = {name: text for name, text in write_secret(world.keys).items() if text is not None}
    assert read_secret(written) == world.keys


def test_a_secret_without_keys_has_none() -> None:
    assert read_secret({}) is None
    assert read_secret({"tls.crt": "x", "tls.key": "y"}) is None
    whole = {name: text or "" for name, text in write_secret(fresh()).items()}
    assert read_secret(whole) is not None
    assert read_secret({**whole, "authority.crt": "x"}) is None
    assert read_secret({**whole, "since": "soon"}) is None
