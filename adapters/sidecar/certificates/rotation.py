"""What should be kept and trusted now: certificates change without a request that fails.

An authority is trusted before it signs, and for a while after the last thing that it signed was
taken away:

    steady      A signs                     A is trusted
    announced   A signs                     A and B are trusted
    switched    B signs                     A and B are trusted
    steady      B signs                     B is trusted

Each step is taken ``overlap`` seconds after the API server's configurations were seen to carry the
present bundle. So whoever serves an old certificate, or trusts an old bundle, for less than that
is served and trusted still. No clock and no I/O.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from adapters.sidecar.certificates.authority import (
    CertificateError,
    KeyPair,
    belong_together,
    facts,
    make_authority,
    sign,
)

_LEFT = 3
"""A certificate is renewed when only this part of its life is left."""


@dataclass(frozen=True, slots=True)
class RotationPolicy:
    """What is wanted; times in seconds.

    Attributes:
        names: DNS names and addresses under which the service is asked.
        authority: life of an authority.
        leaf: life of a serving certificate; at most half of the authority's.
        overlap: between two steps; at most a sixth of ``leaf``.
    """

    names: Sequence[str]
    authority: int
    leaf: int
    overlap: int


@dataclass(frozen=True, slots=True)
class CertificateSet:
    """All that is kept.

    Attributes:
        authority: signs.
        leaf: is served.
        next: is trusted already and will sign; None where no change is on its way.
        previous: certificate that is trusted still; empty for none.
        since: seconds since 1970 at which the bundle was seen where it is needed; 0 for not yet.
    """

    authority: KeyPair
    leaf: KeyPair
    next: KeyPair | None = None
    previous: str = ""
    since: int = 0

    @property
    def bundle(self) -> str:
        """The authorities to trust; the same text for the same authorities."""
        known = {self.authority.certificate, self.previous}
        if self.next is not None:
            known.add(self.next.certificate)
        return "".join(sorted(known - {""}))

    @property
    def phase(self) -> str:
        """``steady``, ``announced`` or ``switched``."""
        if self.next is not None:
            return "announced"
        return "switched" if self.previous else "steady"


def advance(
    keys: CertificateSet | None, now: int, plan: RotationPolicy, *, told: bool, forced: bool = False
) -> CertificateSet:
    """What should be kept from now on: the same object where nothing is to be done.

    Args:
        keys: what is kept; None where there is nothing that can be used.
        now: seconds since 1970.
        plan: what is wanted.
        told: whether all that need it were seen to have the present bundle.
        forced: whether a new authority is wanted before its time; it waits for a steady phase.
    """
    if keys is None or not _usable(keys, now):
        return _fresh(now, plan)
    moved = _moved(keys, now, plan, told=told, forced=forced)
    return _renewed(moved, now, plan)


def _fresh(now: int, plan: RotationPolicy) -> CertificateSet:
    authority = make_authority(now, plan.authority)
    return CertificateSet(authority, sign(authority, plan.names, now, plan.leaf))


def _usable(keys: CertificateSet, now: int) -> bool:
    try:
        return (
            facts(keys.authority.certificate).ends > now
            and belong_together(keys.authority, keys.authority.certificate)
            and (keys.next is None or belong_together(keys.next, keys.next.certificate))
            and (not keys.previous or facts(keys.previous).ends > 0)
        )
    except CertificateError:
        return False


def _moved(
    keys: CertificateSet, now: int, plan: RotationPolicy, *, told: bool, forced: bool
) -> CertificateSet:
    """The next step, where it is time for one."""
    if keys.phase == "steady":
        if not forced and not _due(keys.authority, now, plan.authority):
            return keys
        return replace(keys, next=make_authority(now, plan.authority), since=0)
    if not told:
        return replace(keys, since=0) if keys.since else keys
    if not keys.since:
        return replace(keys, since=now)
    if now - keys.since < plan.overlap:
        return keys
    if keys.next is None:
        return replace(keys, previous="", since=0)
    leaf = sign(keys.next, plan.names, now, plan.leaf)
    return CertificateSet(keys.next, leaf, previous=keys.authority.certificate, since=now)


def _renewed(keys: CertificateSet, now: int, plan: RotationPolicy) -> CertificateSet:
    """With another leaf of the same authority, where this one is not right or ends soon."""
    try:
        said = facts(keys.leaf.certificate)
        whole = belong_together(keys.leaf, keys.authority.certificate)
    except CertificateError:
        whole = False
    if whole and said.names == tuple(sorted(plan.names)):
        last = facts(keys.authority.certificate).ends
        if not _due(keys.leaf, now, plan.leaf) or said.ends >= min(now + plan.leaf, last):
            return keys
    return replace(keys, leaf=sign(keys.authority, plan.names, now, plan.leaf))


def _due(pair: KeyPair, now: int, life: int) -> bool:
    return facts(pair.certificate).ends - now <= life // _LEFT
