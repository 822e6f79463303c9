"""The port's certificate, renewed in place: connections that there are stay as they are."""

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from adapters.sidecar.settings import SettingsError, Tls


class ServingCertificate(Protocol):
    """Whatever has a TLS context for a server."""

    @property
    def context(self) -> ssl.SSLContext:
        """For the server."""
        ...


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
            authorities: of clients; None where anybody may ask.

        Raises:
            SettingsError: one of them cannot be used.
        """
        self._files = (certificate, key)
        self.context = _context(authorities)
        self._seen: object = None
        self.renew()

    def renew(self) -> bool:
        """Read the certificate again if its files have changed.

        Returns:
            whether there was anything new.

        Raises:
            SettingsError: the files cannot be used (now); the earlier certificate stays.
        """
        now = [_stamp(path) for path in self._files]
        if now == self._seen:
            return False
        try:
            _load(self.context, *map(str, self._files))
        except OSError as error:
            raise SettingsError(f"tls: the certificate cannot be read: {error}") from error
        self._seen = now
        return True


class CertificateText:
    """A TLS context whose certificate is handed in; until then every handshake fails.

    Attributes:
        context: for the server.
    """

    def __init__(self, authorities: Path | None) -> None:
        """There is no certificate yet.

        Raises:
            SettingsError: the authorities of clients cannot be read.
        """
        self.context = _context(authorities)

    def take(self, certificate: str, key: str) -> None:
        """Serve this one from now on; the key is never in a file system.

        Raises:
            SettingsError: they cannot be used; the earlier ones stay.
        """
        try:
            with _in_memory(certificate) as first, _in_memory(key) as second:
                _load(self.context, first, second)
        except OSError as error:
            raise SettingsError(f"tls: the certificate cannot be used: {error}") from error


def serving(tls: Tls) -> CertificateFiles | CertificateText:
    """What the settings say.

    Raises:
        SettingsError: a file cannot be used.
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
    # A pair that does not match would leave the context without a key: try it first.
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
    context.load_cert_chain(certificate, key)


@contextmanager
def _in_memory(text: str) -> Iterator[str]:
    """The path of a file that only this process has, and that is on no disk."""
    number = os.memfd_create("tls")
    try:
        os.write(number, text.encode())
        yield f"/proc/self/fd/{number}"
    finally:
        os.close(number)


def _stamp(path: Path) -> object:
    try:
        stat = path.stat()
    except OSError as error:
        raise SettingsError(f"tls: {path} cannot be read: {error.strerror}") from error
    return stat.st_mtime_ns, stat.st_ino, stat.st_size
