"""The gRPC port's certificate and its clients' authorities, read again when their files change."""

import ssl
from collections.abc import Callable
from pathlib import Path

import grpc

from adapters.sidecar.settings import GrpcTls, SettingsError


def credentials(tls: GrpcTls, unusable: Callable[[str], None]) -> grpc.ServerCredentials:
    """Credentials that look at their files at every connection.

    Args:
        tls: the files.
        unusable: told why files that have changed cannot be used; the earlier ones stay.

    Raises:
        SettingsError: the files cannot be used.
    """
    files = _Files(tls)
    first = files.read()
    return grpc.dynamic_ssl_server_credentials(
        first, lambda: files.changed(unusable), require_client_authentication=True
    )


class _Files:
    def __init__(self, tls: GrpcTls) -> None:
        self._tls = tls
        self._seen = self._stamp()

    def changed(
        self, unusable: Callable[[str], None]
    ) -> grpc.ServerCertificateConfiguration | None:
        """What the files say, if they have changed and can be used."""
        now = self._stamp()
        if now == self._seen:
            return None
        self._seen = now
        try:
            return self.read()
        except SettingsError as error:
            unusable(str(error))
            return None

    def read(self) -> grpc.ServerCertificateConfiguration:
        """What the files say.

        Raises:
            SettingsError: it cannot be used.
        """
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
