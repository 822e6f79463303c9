"""A certificate that is handed in is shown to whoever comes next, and to nobody before."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from adapters.sidecar.certificates.authority import KeyPair, make_authority, sign
from adapters.sidecar.certificates.secret import ServedCertificate
from adapters.sidecar.certificates.tls_context import CertificateText
from adapters.sidecar.settings import SettingsError
from adapters.wire.kube import Metadata, Secret

NOW = 1_800_000_000


@contextmanager
def listening(text: CertificateText) -> Iterator[int]:
    """A port that does handshakes and hangs up."""
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


def shown(port: int) -> bytes:
    """What a client is shown, whom it trusts aside."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection(("127.0.0.1", port), timeout=5) as plain,
        context.wrap_socket(plain) as secure,
    ):
        return secure.getpeercert(binary_form=True) or b""


def a_pair(authority: KeyPair) -> KeyPair:
    return sign(authority, ["127.0.0.1"], NOW, 100)


def test_a_new_certificate_is_shown_without_a_new_port_and_one_that_is_none_is_not() -> None:
    authority = make_authority(NOW, 1000)
    first, second = a_pair(authority), a_pair(authority)
    text = CertificateText(None)

    with listening(text) as port:
        with pytest.raises(OSError, match=r"(?i)ssl|reset|eof"):
            shown(port)
        text.take(first.certificate, first.key)
        before = shown(port)
        with pytest.raises(SettingsError, match="cannot be used"):
            text.take(first.certificate, second.key)
        assert shown(port) == before
        text.take(second.certificate, second.key)
        after = shown(port)

    assert before == ssl.PEM_cert_to_DER_cert(first.certificate)
    assert after == ssl.PEM_cert_to_DER_cert(second.certificate)


def test_authorities_of_clients_that_are_not_there_are_told() -> None:
    with pytest.raises(SettingsError, match="clientAuthorities"):
        CertificateText(Path("/nowhere.crt"))


def test_a_secret_is_taken_when_it_has_a_certificate_and_told_when_it_has_garbage() -> None:
    from base64 import b64encode

    told: list[str] = []
    served = ServedCertificate(
        CertificateText(None), lambda: told.append("ready"), lambda e, _: told.append(e)
    )
    pair = a_pair(make_authority(NOW, 1000))

    def tell(certificate: str, key: str) -> None:
        texts = {"tls.crt": certificate, "tls.key": key}
        data = {name: b64encode(text.encode()).decode() for name, text in texts.items() if text}
        served.on_update(Secret(Metadata(name="s"), data))

    tell("", "")
    assert (told, served.ends) == ([], 0)
    tell(pair.certificate, pair.key)
    tell(pair.certificate, pair.key)
    assert (told, served.ends) == (["certificate.taken", "ready"], NOW + 100)
    tell("x", "y")
    tell(pair.certificate, "y")
    served.on_delete(Metadata(name="s"))
    served.on_unreadable(Metadata(name="s"), "odd")
    served.on_synced()
    assert told[2:] == ["certificate.unusable"] * 2 + ["certificate.lost", "certificate.unusable"]
    assert served.ends == NOW + 100
