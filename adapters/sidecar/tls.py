"""The port's certificate, read again in place when its files change."""

import ssl
from pathlib import Path

from adapters.sidecar.settings import SettingsError, Tls


class Certificate:
    """A TLS context whose certificate can be renewed while it is in use.

    Attributes:
        context: for the server.
    """

    def __init__(self, tls: Tls) -> None:
        """Read the files.

        Raises:
            SettingsError: one of them cannot be used.
        """
        self._tls = tls
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.context.set_alpn_protocols(["http/1.1"])
        self._seen: object = None
        self.renew()
        if tls.client_authorities is not None:
            try:
                self.context.load_verify_locations(tls.client_authorities)
            except OSError as error:
                raise SettingsError(f"tls.clientAuthorities: {error}") from error
            self.context.verify_mode = ssl.CERT_REQUIRED

    def renew(self) -> bool:
        """Read the certificate again if its files have changed; connections stay as they are.

        Returns:
            whether there was anything new.

        Raises:
            SettingsError: the files cannot be used (now); the earlier certificate stays.
        """
        now = [_stamp(path) for path in (self._tls.certificate, self._tls.key)]
        if now == self._seen:
            return False
        try:
            # A pair that does not match would leave the context without a key: try it first.
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(
                self._tls.certificate, self._tls.key
            )
            self.context.load_cert_chain(self._tls.certificate, self._tls.key)
        except OSError as error:
            raise SettingsError(f"tls: the certificate cannot be read: {error}") from error
        self._seen = now
        return True


def _stamp(path: Path) -> object:
    try:
        stat = path.stat()
    except OSError as error:
        raise SettingsError(f"tls: {path} cannot be read: {error.strerror}") from error
    return stat.st_mtime_ns, stat.st_ino, stat.st_size
