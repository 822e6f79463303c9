"""A client that verifies a server, as the API server does it."""

from datetime import UTC, datetime
from ipaddress import ip_address

from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError


def accepts(bundle: str, certificate: str, name: str, now: int) -> bool:
    """Whether a client that trusts a bundle accepts a server's certificate."""
    store = Store(x509.load_pem_x509_certificates(bundle.encode()))
    builder = PolicyBuilder().store(store).time(datetime.fromtimestamp(now, UTC))
    try:
        subject: x509.verification.Subject = x509.IPAddress(ip_address(name))
    except ValueError:
        subject = x509.DNSName(name)
    try:
        leaf = x509.load_pem_x509_certificate(certificate.encode())
        builder.build_server_verifier(subject).verify(leaf, [])
    except VerificationError:
        return False
    return True
