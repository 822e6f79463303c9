"""TLS contexts whose certificate is replaced in place; open connections keep the earlier one."""

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from adapters.service.settings.sections import Tls
from adapters.service.settings.settings import SettingsError


class CertificateFiles:
    """A TLS context whose certificate is read again when its files change.

    Attributes:
        context: for the server.
    """

    def __init__(self, certificate: Path, key: Path, authorities: Path | None) -> None:
        """Read the files.

        Args:
            certificate: with the chain, PEM.
            key: of it, PEM.
            authorities: of clients; None where clients need no certificate.

        Raises:
            SettingsError: a file cannot be read or is invalid.
        """
        self._files = (certificate, key)
        self.context = _context(authorities)
        self._seen: object = None
        self.renew()

    def renew(self) -> bool:
        """Read the certificate again if its files have changed.

        Returns:
            whether they had changed.

        Raises:
            SettingsError: the files cannot be read or are invalid; the earlier certificate stays.
        """
        now: list[object] = []
        for path in self._files:
            try:
                stat = path.stat()
            except OSError as error:
                raise SettingsError(f"tls: {path} cannot be read: {error.strerror}") from error
            now.append((stat.st_mtime_ns, stat.st_ino, stat.st_size))
        if now == self._seen:
            return False
        try:
            _load(self.context, *map(str, self._files))
        except OSError as error:
            raise SettingsError(f"tls: the certificate cannot be read: {error}") from error
        self._seen = now
        return True


class CertificateText:
    """A TLS context whose certificate is set later; until then every handshake fails.

    Attributes:
        context: for the server.
    """

    def __init__(self, authorities: Path | None) -> None:
        """Begin without a certificate.

        Raises:
            SettingsError: the authorities of clients cannot be read.
        """
        self.context = _context(authorities)

    def take(self, certificate: str, key: str) -> None:
        """Serve this certificate from now on; the key is never written to a file system.

        Raises:
            SettingsError: they are invalid; the earlier ones stay.
        """
        try:
            with _in_memory(certificate) as first, _in_memory(key) as second:
                _load(self.context, first, second)
        except OSError as error:
            raise SettingsError(f"tls: the certificate cannot be used: {error}") from error


ServingCertificate = CertificateFiles | CertificateText
"""Has a TLS context for a server."""


def serving(tls: Tls) -> ServingCertificate:
    """Return the certificate that the settings ask for.

    Raises:
        SettingsError: a file cannot be read or is invalid.
    """
    if tls.certificate is None or tls.key is None:
        return CertificateText(tls.client_authorities)
    return CertificateFiles(tls.certificate, tls.key, tls.client_authorities)


def _context(authorities: Path | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    if authorities is not None:
        try:
            context.load_verify_locations(authorities)
        except OSError as error:
            raise SettingsError(f"tls.clientAuthorities: {error}") from error
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _load(context: ssl.SSLContext, certificate: str, key: str) -> None:
    # A pair that does not match would leave the context without a key, so load it elsewhere first.
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
    context.load_cert_chain(certificate, key)


@contextmanager
def _in_memory(text: str) -> Iterator[str]:
    """Yield the path of a file in memory that only this process can open."""
    number = os.memfd_create("tls")
    try:
        os.write(number, text.encode())
        yield f"/proc/self/fd/{number}"
    finally:
        os.close(number)
