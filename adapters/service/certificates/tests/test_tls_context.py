"""A new certificate is served to new connections; before there is one, handshakes fail."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from adapters.service.certificates.authority import KeyPair, make_authority, sign
from adapters.service.certificates.tls_context import CertificateFiles, CertificateText
from adapters.service.settings.settings import SettingsError

NOW = 1_800_000_000


@contextmanager
def listening(text: CertificateText) -> Iterator[int]:
    """Yield a port that accepts TLS handshakes and closes the connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    plain, _ = server.accept()
                except OSError:
                    return
                with plain:
                    try:
                        text.context.wrap_socket(plain, server_side=True).close()
                    except OSError:
                        continue

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def received(port: int) -> bytes:
    """Return the certificate that a client receives, verified or not."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection(("127.0.0.1", port), timeout=30) as plain,
        context.wrap_socket(plain) as secure,
    ):
        return secure.getpeercert(binary_form=True) or b""


def a_pair(authority: KeyPair) -> KeyPair:
    return sign(authority, ["127.0.0.1"], NOW, 100)


def test_a_new_certificate_is_served_on_the_same_port_and_an_invalid_one_is_not() -> None:
    authority = make_authority(NOW, 1000)
    first, second = a_pair(authority), a_pair(authority)
    text = CertificateText(None)

    with listening(text) as port:
        with pytest.raises(OSError, match=r"(?i)ssl|reset|eof"):
            received(port)
        text.take(first.certificate, first.key)
        before = received(port)
        with pytest.raises(SettingsError, match="cannot be used"):
            text.take(first.certificate, second.key)
        assert received(port) == before
        text.take(second.certificate, second.key)
        after = received(port)

    assert before == ssl.PEM_cert_to_DER_cert(first.certificate)
    assert after == ssl.PEM_cert_to_DER_cert(second.certificate)


def test_missing_authorities_of_clients_are_rejected() -> None:
    with pytest.raises(SettingsError, match="clientAuthorities"):
        CertificateText(Path("/nowhere.crt"))


def test_tls_requires_a_valid_certificate(tmp_path: Path) -> None:
    (tmp_path / "crt").write_text("x")
    (tmp_path / "key").write_text("y")

    with pytest.raises(SettingsError, match="certificate"):
        CertificateFiles(tmp_path / "crt", tmp_path / "key", None)
    with pytest.raises(SettingsError, match="cannot be read"):
        CertificateFiles(tmp_path / "nothing", tmp_path / "key", None)
