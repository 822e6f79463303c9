"""The Secret of the certificate: the leader writes it, every replica watches it."""

from collections.abc import Callable, Mapping

from adapters.cluster.objects.certificates import SecretClient, texts
from adapters.service.certificates import record
from adapters.service.certificates.authority import CertificateError, facts
from adapters.service.certificates.tls_context import CertificateText
from adapters.service.settings.settings import SettingsError
from adapters.wire.kube import Secret

ROTATE = "dragoman.dev/rotate"
"""Annotation that requests a new authority; its value is not read."""


class KubeSecretStorage:
    """Implements ``keeper.SecretStorage``."""

    def __init__(self, secrets: SecretClient, namespace: str, name: str) -> None:
        """Send no request yet."""
        self._secrets = secrets
        self._place = (namespace, name)

    async def read(self) -> tuple[record.Data, str, bool]:
        """Return data, version, and whether a new authority was requested.

        Raises:
            OSError: the Secret does not exist, or the API server did not answer.
        """
        secret = await self._secrets.get(*self._place)
        return secret.data, secret.version, ROTATE in secret.annotations

    async def write(self, data: dict[str, str | None], version: str, *, fulfilled: bool) -> None:
        """Change the data, and remove the request for a new authority if it is fulfilled.

        Raises:
            OSError: the version has changed, or the API server did not confirm the write.
        """
        removed: Mapping[str, str | None] = {ROTATE: None} if fulfilled else {}
        await self._secrets.change(*self._place, version, data, removed)


class ServedCertificate:
    """Serves each new certificate of the Secret; implements ``EventHandler``.

    Attributes:
        ends: end of the present one's validity, in seconds since 1970; 0 while there is none.
    """

    def __init__(
        self, text: CertificateText, ready: Callable[[], None], report: Callable[[str, str], None]
    ) -> None:
        """Serve nothing yet.

        Args:
            text: the TLS context that serves it.
            ready: called when there is a certificate.
            report: called with a log event and a sentence about it.
        """
        self.ends = 0
        self._text = text
        self._ready = ready
        self._report = report
        self._last: object = None

    def on_update(self, thing: Secret) -> None:
        """Serve the certificate of the Secret, if it is valid and new."""
        pair = record.serving(texts(thing))
        if pair is None or pair == self._last:
            return
        try:
            ends = facts(pair.certificate).ends
            self._text.take(pair.certificate, pair.key)
        except (CertificateError, SettingsError) as error:
            self._report("certificate.unusable", str(error))
            return
        self.ends, self._last = ends, pair
        self._report("certificate.taken", thing.metadata.resource_version)
        self._ready()

    def on_delete(self, what: object) -> None:  # noqa: ARG002
        """Keep the last certificate."""
        self._report(
            "certificate.lost", "the Secret was deleted; its last certificate stays in use"
        )

    def on_unreadable(self, what: object, problem: str) -> None:  # noqa: ARG002
        """Keep the last certificate."""
        self._report("certificate.unusable", problem)

    def on_synced(self) -> None:
        """The Secret was listed."""
