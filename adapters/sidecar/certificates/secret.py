"""The Secret: kept by whoever has the Lease, followed by all."""

from collections.abc import Callable, Mapping

from adapters.cluster.objects.secret import SecretClient, texts
from adapters.sidecar.certificates import record
from adapters.sidecar.certificates.authority import CertificateError, facts
from adapters.sidecar.certificates.tls_context import CertificateText
from adapters.sidecar.settings import SettingsError
from adapters.wire.kube import Secret

WISH = "dragoman.dev/rotate"
"""Annotation by which a person asks for a new authority; its value is not read."""


class KubeSecretStorage:
    """Implements ``keeper.Vault``."""

    def __init__(self, secrets: SecretClient, namespace: str, name: str) -> None:
        """Nothing is asked yet."""
        self._secrets = secrets
        self._place = (namespace, name)

    async def read(self) -> tuple[record.Data, str, bool]:
        """Data, version, and whether somebody asks for a new authority.

        Raises:
            OSError: it is not there, or the server did not answer.
        """
        found = await self._secrets.get(*self._place)
        return found.data, found.version, WISH in found.annotations

    async def write(self, data: dict[str, str | None], version: str, *, fulfilled: bool) -> None:
        """Change the data, and take a wish away that is fulfilled.

        Raises:
            OSError: the version is another one, or there was no good answer.
        """
        gone: Mapping[str, str | None] = {WISH: None} if fulfilled else {}
        await self._secrets.change(*self._place, version, data, gone)


class ServedCertificate:
    """Takes each new certificate of the Secret; implements ``cluster.sink.Sink``.

    Attributes:
        ends: seconds since 1970 until which the present one is valid; 0 while there is none.
    """

    def __init__(
        self, text: CertificateText, ready: Callable[[], None], tell: Callable[[str, str], None]
    ) -> None:
        """Nothing is served yet.

        Args:
            text: that serves.
            ready: called when there is something to serve.
            tell: told an event and a text about it.
        """
        self.ends = 0
        self._text = text
        self._ready = ready
        self._tell = tell
        self._last: object = None

    def on_update(self, thing: Secret) -> None:
        """It is new, or not what it was."""
        pair = record.serving(texts(thing))
        if pair is None or pair == self._last:
            return
        try:
            ends = facts(pair.certificate).ends
            self._text.take(pair.certificate, pair.key)
        except (CertificateError, SettingsError) as error:
            self._tell("certificate.unusable", str(error))
            return
        self.ends, self._last = ends, pair
        self._tell("certificate.taken", thing.metadata.resource_version)
        self._ready()

    def on_delete(self, what: object) -> None:  # noqa: ARG002
        """The last certificate is served on."""
        self._tell("certificate.lost", "the Secret is gone; what it held is served on")

    def on_unreadable(self, what: object, problem: str) -> None:  # noqa: ARG002
        """The last certificate is served on."""
        self._tell("certificate.unusable", problem)

    def on_synced(self) -> None:
        """All that there was has been told."""
