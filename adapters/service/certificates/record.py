"""Encodes the keys as the data of a Secret."""

from collections.abc import Mapping

from adapters.service.certificates.authority import CertificateError, KeyPair, facts
from adapters.service.certificates.rotation import CertificateSet

CERTIFICATE, KEY, BUNDLE = "tls.crt", "tls.key", "ca.crt"
"""Keys of Secrets of the type ``kubernetes.io/tls``; cert-manager uses the same.

Source: k8s.io/api/core/v1/types.go, TLSCertKey, TLSPrivateKeyKey, ServiceAccountRootCAKey.
"""

_PARTS = ("authority.crt", "authority.key", "next.crt", "next.key", "previous.crt", "since")

Data = Mapping[str, str]


def read(data: Data) -> CertificateSet | None:
    """Return the keys in a Secret's data; None where they are missing or invalid."""
    signer, signing, following, key, previous, since = (data.get(part, "") for part in _PARTS)
    authority, leaf = KeyPair(signer, signing), serving(data)
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


def write(keys: CertificateSet) -> dict[str, str | None]:
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


def serving(data: Data) -> KeyPair | None:
    """Return the certificate to serve; None where there is none yet."""
    certificate, key = data.get(CERTIFICATE, ""), data.get(KEY, "")
    return KeyPair(certificate, key) if certificate and key else None
