"""Our own certificate authority and the certificates that it signs. Alone imports ``cryptography``.

Source of what verifiers require of both: RFC 5280, section 4.2; Python 3.13 and Go reject
certificates without key identifiers or without subject alternative names.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

SKEW = timedelta(hours=1)
"""A certificate is valid from so long before it is made, for clocks that are behind."""

_USAGES = (
    "digital_signature", "content_commitment", "key_encipherment", "data_encipherment",
    "key_agreement", "key_cert_sign", "crl_sign", "encipher_only", "decipher_only",
)  # fmt: skip


class CertificateError(ValueError):
    """A text is not a certificate, not a key, or the two do not belong together."""


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its key, as PEM."""

    certificate: str
    key: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class CertificateFacts:
    """Contents of a certificate.

    Attributes:
        ends: end of its validity, in seconds since 1970.
        names: DNS names and addresses of its subject, sorted.
    """

    ends: int
    names: tuple[str, ...]


def make_authority(now: int, life: int) -> KeyPair:
    """Make a new, self-signed authority.

    Args:
        now: seconds since 1970.
        life: seconds for which it is valid from now on.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    own = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    # Each authority has its own name, because verifiers look for the signer by name.
    name = _name(f"dragoman authority {own.digest.hex()[:16]}")
    made = (
        _builder(name, name, key.public_key(), now, _moment(now + life))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage("key_cert_sign", "crl_sign"), critical=True)
        .add_extension(own, critical=False)
        .sign(key, hashes.SHA256())
    )
    return _pair(made, key)


def sign(authority: KeyPair, names: Sequence[str], now: int, life: int) -> KeyPair:
    """Sign a certificate for a server; it never outlives its authority.

    Args:
        authority: the authority that signs.
        names: DNS names and addresses of the server.
        now: seconds since 1970.
        life: seconds for which it is valid from now on.

    Raises:
        CertificateError: the authority cannot be read.
    """
    signer, signing = _certificate(authority.certificate), _key(authority.key)
    key = ec.generate_private_key(ec.SECP256R1())
    ends = min(_moment(now + life), signer.not_valid_after_utc)
    made = (
        _builder(_name("dragoman"), signer.subject, key.public_key(), now, ends)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage("digital_signature"), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(list(map(_general, names))), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key()),
            critical=False,
        )
        .sign(signing, hashes.SHA256())
    )
    return _pair(made, key)


def facts(certificate: str) -> CertificateFacts:
    """Read the contents of a certificate.

    Raises:
        CertificateError: it cannot be read.
    """
    read = _certificate(certificate)
    try:
        alternatives = read.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        names = [str(each.value) for each in alternatives]
    except x509.ExtensionNotFound:
        names = []
    return CertificateFacts(int(read.not_valid_after_utc.timestamp()), tuple(sorted(names)))


def belong_together(pair: KeyPair, authority: str) -> bool:
    """Return whether a key is that of its certificate, and the authority signed it."""
    try:
        certificate, signer = _certificate(pair.certificate), _certificate(authority)
        certificate.verify_directly_issued_by(signer)
        return _key(pair.key).public_key() == certificate.public_key()
    except Exception:
        return False


def signed_by_one_of(certificate: str, authorities: str) -> bool:
    """Return whether one of the authorities signed a certificate itself.

    Args:
        certificate: PEM; of a chain, the first.
        authorities: certificates, PEM.

    Raises:
        CertificateError: one of the two texts cannot be read.
    """
    leaf = _certificate(certificate)
    try:
        signers = x509.load_pem_x509_certificates(authorities.encode())
    except ValueError as error:
        raise CertificateError(f"not certificates: {error}") from error
    for signer in signers:
        try:
            leaf.verify_directly_issued_by(signer)
        except (InvalidSignature, ValueError, TypeError):
            continue
        return True
    return False


def _certificate(text: str) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(text.encode())
    except ValueError as error:
        raise CertificateError(f"not a certificate: {error}") from error


def _key(text: str) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(text.encode(), password=None)
    except (ValueError, TypeError) as error:
        raise CertificateError(f"not a private key: {error}") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise CertificateError("the private key is not an elliptic curve key")
    return key


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    now: int,
    ends: datetime,
) -> x509.CertificateBuilder:
    return x509.CertificateBuilder(
        issuer_name=issuer,
        subject_name=subject,
        public_key=key,
        serial_number=x509.random_serial_number(),
        not_valid_before=_moment(now) - SKEW,
        not_valid_after=ends,
    )


def _usage(*wanted: str) -> x509.KeyUsage:
    return x509.KeyUsage(**{usage: usage in wanted for usage in _USAGES})


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _moment(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> KeyPair:
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    text = certificate.public_bytes(serialization.Encoding.PEM).decode()
    return KeyPair(text, secret.decode())
