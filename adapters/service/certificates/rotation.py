"""Decides which keys to use and to trust, so that a rotation fails no request.

An authority is trusted before it signs, and for a while after the last certificate that it signed
was replaced:

    steady      A signs                     A is trusted
    announced   A signs                     A and B are trusted
    switched    B signs                     A and B are trusted
    steady      B signs                     B is trusted

Each step is due ``overlap`` seconds after the API server's configurations were seen with the
present bundle. A replica that serves an old certificate, or an API server that trusts an old
bundle, for less than that still works. No clock and no I/O.

The keys are the data of a Secret.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from adapters.service.certificates.authority import (
    CertificateError,
    KeyPair,
    belong_together,
    facts,
    make_authority,
    sign,
)

CERTIFICATE, KEY, BUNDLE = "tls.crt", "tls.key", "ca.crt"
"""Keys of Secrets of the type ``kubernetes.io/tls``; cert-manager uses the same.

Source: k8s.io/api/core/v1/types.go, TLSCertKey, TLSPrivateKeyKey, ServiceAccountRootCAKey.
"""

_PARTS = ("authority.crt", "authority.key", "next.crt", "next.key", "previous.crt", "since")

Data = Mapping[str, str]

_LEFT = 3
"""A certificate is renewed when a third of its validity is left."""


@dataclass(frozen=True, slots=True)
class RotationPolicy:
    """Names and times; times in seconds.

    Attributes:
        names: DNS names and addresses of the service.
        authority: validity of an authority.
        leaf: validity of a serving certificate; at most half of the authority's.
        overlap: time between two steps; at most a sixth of ``leaf``.
    """

    names: Sequence[str]
    authority: int
    leaf: int
    overlap: int


@dataclass(frozen=True, slots=True)
class CertificateSet:
    """All keys in the Secret.

    Attributes:
        authority: signs serving certificates.
        leaf: the serving certificate.
        next: authority that is trusted already and will sign; None where no rotation is going on.
        previous: certificate of an authority that is still trusted; empty for none.
        since: seconds since 1970 at which the bundle was first seen everywhere; 0 for not yet.
    """

    authority: KeyPair
    leaf: KeyPair
    next: KeyPair | None = None
    previous: str = ""
    since: int = 0

    @property
    def bundle(self) -> str:
        """The authorities to trust as PEM; the same text for the same authorities."""
        trusted = {self.authority.certificate, self.previous}
        if self.next is not None:
            trusted.add(self.next.certificate)
        return "".join(sorted(trusted - {""}))

    @property
    def phase(self) -> str:
        """``steady``, ``announced`` or ``switched``."""
        if self.next is not None:
            return "announced"
        return "switched" if self.previous else "steady"


def advance(
    keys: CertificateSet | None,
    now: int,
    policy: RotationPolicy,
    *,
    published: bool,
    forced: bool = False,
) -> CertificateSet:
    """Return the keys after the next step; the same object where none is due.

    Args:
        keys: the present ones; None where they are missing or invalid.
        now: seconds since 1970.
        policy: names and times.
        published: whether every configuration was seen with the present bundle.
        forced: whether a new authority was requested before it is due; that waits for a steady
            phase.
    """
    if keys is None or not _usable(keys, now):
        authority = make_authority(now, policy.authority)
        return CertificateSet(authority, sign(authority, policy.names, now, policy.leaf))
    keys = _rotated(keys, now, policy, published=published, forced=forced)
    try:
        leaf = facts(keys.leaf.certificate)
        whole = belong_together(keys.leaf, keys.authority.certificate)
    except CertificateError:
        whole = False
    if whole and leaf.names == tuple(sorted(policy.names)):
        last = facts(keys.authority.certificate).ends
        if not _due(keys.leaf, now, policy.leaf) or leaf.ends >= min(now + policy.leaf, last):
            return keys
    return replace(keys, leaf=sign(keys.authority, policy.names, now, policy.leaf))


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


def _rotated(
    keys: CertificateSet, now: int, policy: RotationPolicy, *, published: bool, forced: bool
) -> CertificateSet:
    """Return the keys after the next step of a rotation, if one is due."""
    if keys.phase == "steady":
        if not forced and not _due(keys.authority, now, policy.authority):
            return keys
        return replace(keys, next=make_authority(now, policy.authority), since=0)
    if not published:
        return replace(keys, since=0) if keys.since else keys
    if not keys.since:
        return replace(keys, since=now)
    if now - keys.since < policy.overlap:
        return keys
    if keys.next is None:
        return replace(keys, previous="", since=0)
    leaf = sign(keys.next, policy.names, now, policy.leaf)
    return CertificateSet(keys.next, leaf, previous=keys.authority.certificate, since=now)


def _due(pair: KeyPair, now: int, life: int) -> bool:
    return facts(pair.certificate).ends - now <= life // _LEFT


def read_secret(data: Data) -> CertificateSet | None:
    """Return the keys in a Secret's data; None where they are missing or invalid."""
    signer, signing, following, key, previous, since = (data.get(part, "") for part in _PARTS)
    authority, leaf = KeyPair(signer, signing), served_pair(data)
    if not (signer and signing and leaf):
        return None
    try:
        for text in filter(None, (signer, following, previous)):
            facts(text)
        return CertificateSet(
            authority,
            leaf,
            KeyPair(following, key) if following else None,
            previous,
            int(since or 0),
        )
    except (CertificateError, ValueError):
        return None


def write_secret(keys: CertificateSet) -> dict[str, str | None]:
    """Return a Secret's data; None removes an entry."""
    following = keys.next or KeyPair("", "")
    parts = (
        keys.authority.certificate,
        keys.authority.key,
        following.certificate,
        following.key,
        keys.previous,
        str(keys.since) if keys.since else "",
    )
    return {
        CERTIFICATE: keys.leaf.certificate,
        KEY: keys.leaf.key,
        BUNDLE: keys.bundle,
        **{name: text or None for name, text in zip(_PARTS, parts, strict=True)},
    }


def served_pair(data: Data) -> KeyPair | None:
    """Return the certificate to serve; None where there is none yet."""
    certificate, key = data.get(CERTIFICATE, ""), data.get(KEY, "")
    return KeyPair(certificate, key) if certificate and key else None
