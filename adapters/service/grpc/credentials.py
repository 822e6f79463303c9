"""The certificate of the gRPC port and its clients' authorities, reloaded when files change."""

import ssl
from collections.abc import Callable
from pathlib import Path

import grpc

from adapters.service.settings.sections import GrpcTls
from adapters.service.settings.settings import SettingsError


def credentials(tls: GrpcTls, unusable: Callable[[str], None]) -> grpc.ServerCredentials:
    """Credentials that check their files at every connection.

    Args:
        tls: the files.
        unusable: called with why changed files cannot be used; the earlier ones stay.

    Raises:
        SettingsError: the files cannot be used.
    """
    files = _Files(tls, unusable)
    return grpc.dynamic_ssl_server_credentials(
        files.latest, files.now, require_client_authentication=True
    )


class _Files:
    """The three files.

    Attributes:
        latest: their last usable content.
    """

    def __init__(self, tls: GrpcTls, unusable: Callable[[str], None]) -> None:
        self._tls = tls
        self._unusable = unusable
        self._seen = self._stamp()
        self.latest = self._read()

    def now(self) -> grpc.ServerCertificateConfiguration:
        """The content of the files, or their last usable content."""
        stamp = self._stamp()
        if stamp != self._seen:
            self._seen = stamp
            try:
                self.latest = self._read()
            except SettingsError as error:
                self._unusable(str(error))
        return self.latest

    def _read(self) -> grpc.ServerCertificateConfiguration:
        tls = self._tls
        probe = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            probe.load_cert_chain(tls.certificate, tls.key)
        except OSError as error:
            raise SettingsError(f"grpcTls: the certificate cannot be read: {error}") from error
        try:
            probe.load_verify_locations(tls.client_authorities)
        except OSError as error:
            raise SettingsError(f"grpcTls.clientAuthorities: {error}") from error
        return grpc.ssl_server_certificate_configuration(
            [(tls.key.read_bytes(), tls.certificate.read_bytes())],
            root_certificates=tls.client_authorities.read_bytes(),
        )

    def _stamp(self) -> object:
        return tuple(
            map(_stamp, (self._tls.certificate, self._tls.key, self._tls.client_authorities))
        )


def _stamp(path: Path) -> object:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_ino, stat.st_size
