"""In no moment of a rotation is a served certificate refused, whoever is late."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from adapters.sidecar.certificates import record
from adapters.sidecar.certificates.authority import KeyPair, facts, make_authority
from adapters.sidecar.certificates.rotation import CertificateSet, RotationPolicy, advance
from adapters.sidecar.certificates.tests.clients import accepts

NOW = 1_800_000_000
NAME = "dragoman.dragoman-system.svc"
STILL = 1 << 60
PLAN = RotationPolicy((NAME,), authority=4800, leaf=1200, overlap=100)


def fresh() -> CertificateSet:
    return advance(None, NOW, PLAN, told=False)


@dataclass
class World:
    """One Secret, a keeper of it, and everybody who is late.

    Attributes:
        published: bundles and when each was the API server's, from and to.
        served: certificates and when each stood in the Secret, from and to.
    """

    now: int = NOW
    keys: CertificateSet = field(default_factory=fresh)
    told: bool = False
    forced: bool = False
    published: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    served: dict[str, list[int]] = field(default_factory=dict[str, list[int]])

    def look(self, *, reached: bool) -> None:
        """The keeper's look: publish, and take a step if it is time for one."""
        told = reached and self.keys.bundle in self._last(self.published)
        if reached:
            self._stand(self.published, self.keys.bundle)
        following = advance(self.keys, self.now, PLAN, told=told, forced=self.forced)
        if following.phase == "announced":
            self.forced = False
        self.keys = replace(following)
        self._stand(self.served, self.keys.leaf.certificate)

    def pairs(self) -> Iterable[tuple[str, str]]:
        """What clients trust now with what is shown now: each is late by less than an overlap."""
        recent = self.now - PLAN.overlap
        return product(
            [text for text, (_, to) in self.published.items() if to > recent],
            [text for text, (_, to) in self.served.items() if to > recent],
        )

    def _stand(self, book: dict[str, list[int]], text: str) -> None:
        for known in book.values():
            known[1] = min(known[1], self.now)
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
    world.look(reached=True)

    for seconds, reached, forced in taken:
        world.now += seconds
        world.forced |= forced
        if facts(world.keys.authority.certificate).ends <= world.now:
            return  # for a third of its life nobody could be told of another one
        world.look(reached=reached)

        for bundle, leaf in world.pairs():
            # One that nobody renewed in time, for want of a look, has ended: that is no rotation.
            if facts(leaf).ends > world.now:
                assert accepts(bundle, leaf, NAME, world.now)


def run(keys: CertificateSet, seconds: int, every: int = 10) -> list[CertificateSet]:
    """All that is kept in a time in which the keeper looks regularly; each once."""
    found = [keys]
    for now in range(NOW, NOW + seconds, every):
        following = advance(found[-1], now, PLAN, told=True)
        if following is not found[-1]:
            found.append(following)
    return found


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


def test_nothing_is_served_past_its_end_where_the_keeper_looks_in_time() -> None:
    keys = fresh()
    for now in range(NOW, NOW + 6 * PLAN.authority, 150):
        keys = advance(keys, now, PLAN, told=True)

        assert facts(keys.leaf.certificate).ends - now > 150
        assert facts(keys.authority.certificate).ends - now > 150


def test_a_new_authority_signs_only_once_everybody_was_told() -> None:
    keys = advance(fresh(), NOW, PLAN, told=True, forced=True)
    assert keys.phase == "announced"

    for later in range(0, 1000, 50):
        keys = advance(keys, NOW + later, PLAN, told=False)

    assert keys.phase == "announced"
    keys = advance(keys, NOW + 1000, PLAN, told=True)
    assert advance(keys, NOW + 1000 + 99, PLAN, told=True).phase == "announced"
    assert advance(keys, NOW + 1000 + 100, PLAN, told=True).phase == "switched"


def test_another_name_is_another_certificate_of_the_same_authority() -> None:
    keys = fresh()

    named = advance(keys, NOW, replace(PLAN, names=(NAME, "127.0.0.1")), told=True)

    assert named.authority == keys.authority
    assert accepts(keys.bundle, named.leaf.certificate, "127.0.0.1", NOW)


def test_what_cannot_be_used_is_made_anew() -> None:
    keys, other = fresh(), make_authority(NOW, 100)

    for broken in (
        replace(keys, authority=KeyPair("x", "y")),
        replace(keys, authority=KeyPair(keys.authority.certificate, other.key)),
        replace(keys, authority=make_authority(NOW - 5000, 100)),
        replace(keys, next=KeyPair("x", "y")),
    ):
        assert advance(broken, NOW, PLAN, told=True).authority != broken.authority
    lost = replace(keys, leaf=KeyPair("x", "y"))
    assert advance(lost, NOW, PLAN, told=True).authority == keys.authority


@given(steps)
def test_what_is_written_is_read_again(taken: list[tuple[int, bool, bool]]) -> None:
    world = World()
    for seconds, reached, forced in taken[:8]:
        world.now += seconds
        world.forced |= forced
        world.look(reached=reached)

    written = {name: text for name, text in record.write(world.keys).items() if text is not None}
    assert record.read(written) == world.keys


def test_a_secret_without_keys_has_none() -> None:
    assert record.read({}) is None
    assert record.read({"tls.crt": "x", "tls.key": "y"}) is None
    whole = {name: text or "" for name, text in record.write(fresh()).items()}
    assert record.read(whole) is not None
    assert record.read({**whole, "authority.crt": "x"}) is None
    assert record.read({**whole, "since": "soon"}) is None
