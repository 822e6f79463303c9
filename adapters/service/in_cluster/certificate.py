"""The Secret of the certificate: the leader rotates its keys, every replica serves it."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from time import time
from typing import Any, NoReturn

from adapters.cluster.api.client import KubeClient
from adapters.cluster.api.error import ClusterError
from adapters.cluster.api.paths import SECRETS, Selection
from adapters.cluster.objects.certificates import SecretClient, WebhookClient, texts
from adapters.cluster.objects.lease import Election
from adapters.cluster.watch.reflector import Reflector
from adapters.service.certificates.authority import CertificateError, facts
from adapters.service.certificates.rotation import (
    RotationPolicy,
    advance,
    read_secret,
    served_pair,
    write_secret,
)
from adapters.service.certificates.tls_context import CertificateText
from adapters.service.in_cluster.watches import Sync
from adapters.service.observe.decision_log import Logger
from adapters.service.runtime import ServiceRuntime
from adapters.service.settings.sections import Managed
from adapters.service.settings.settings import SettingsError
from adapters.wire.kube import Secret

LEASE = "dragoman-certificates"
"""A Lease of its own, because not every replica makes certificates: a sidecar does not."""

Task = Coroutine[Any, Any, Any]

PROBLEMS = frozenset(("certificate.failed", "certificate.lost", "certificate.unusable"))

ROTATE = "dragoman.dev/rotate"
"""Annotation that requests a new authority; its value is not read."""

LONGEST = 20.0
"""Seconds between two checks, at most: the CA bundles may have been overwritten."""


@dataclass(eq=False, slots=True)
class CertificateRotator:
    """Checks the keys and takes one step of a rotation at a time.

    The Secret is at ``place``, its namespace and name. ``publish`` makes the API server trust
    some authorities and no others, and returns whether it trusted them already; it raises
    OSError where a write is not confirmed. ``now`` returns seconds since 1970, and ``report``
    is called with a log event and a sentence about it.
    """

    _secrets: SecretClient
    _place: tuple[str, str]
    _publish: Callable[[str], Awaitable[bool]]
    _policy: RotationPolicy
    _now: Callable[[], int]
    _report: Callable[[str, str], None]
    _problem: str = ""

    async def run(self) -> NoReturn:
        """Check and rotate until cancelled."""
        pause = min(LONGEST, max(0.5, self._policy.overlap / 3))
        while True:
            try:
                again = await self.step()
                self._problem = ""
            except OSError as error:
                again = False
                if str(error) != self._problem:
                    self._problem = str(error)
                    self._report("certificate.failed", self._problem)
            if not again:
                await asyncio.sleep(pause)

    async def step(self) -> bool:
        """Check once, and take the next step if it is due.

        Returns:
            whether the next step may be due at once.

        Raises:
            OSError: keys or CA bundles could not be read or written.
        """
        secret = await self._secrets.get(*self._place)
        keys, forced = read_secret(secret.data), ROTATE in secret.annotations
        published = keys is not None and await self._publish(keys.bundle)
        wanted = advance(keys, self._now(), self._policy, published=published, forced=forced)
        if wanted is keys:
            return False
        begun = wanted.next is not None and (keys is None or keys.next is None)
        fulfilled = {ROTATE: None} if begun else {}
        await self._secrets.change(*self._place, secret.version, write_secret(wanted), fulfilled)
        if keys is None:
            what = "made"
        elif wanted.phase != keys.phase:
            what = "stepped"
        else:
            what = "confirmed" if wanted.leaf == keys.leaf else "renewed"
        self._report(f"certificate.{what}", wanted.phase)
        return keys is None or wanted.bundle != keys.bundle


@dataclass(eq=False, slots=True)
class ServedCertificate:
    """Serves each new certificate of the Secret; implements ``EventHandler``.

    ``ready`` is called when there is a certificate.

    Attributes:
        ends: end of the present one's validity, in seconds since 1970; 0 while there is none.
    """

    _text: CertificateText
    _ready: Callable[[], None]
    _report: Callable[[str, str], None]
    ends: int = 0
    _last: object = None

    def on_update(self, thing: Secret) -> None:
        """Serve the certificate of the Secret, if it is valid and new."""
        pair = served_pair(texts(thing))
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
        """Ignore it: the Secret was listed."""


def certificate_tasks(
    runtime: ServiceRuntime,
    client: KubeClient,
    namespace: str,
    identity: str,
    text: CertificateText,
    managed: Managed,
    log: Logger,
) -> Sequence[Task]:
    """Return the tasks that serve and renew the certificate in a Secret.

    The service is not ready before it serves a certificate. Secret and Lease are in ``namespace``.
    """
    service, problem = runtime.service, ""

    def event(name: str, text: str) -> None:
        """Log an event with a sentence about it; a problem that lasts is logged once."""
        nonlocal problem
        if name not in PROBLEMS:
            log.info(name, text=text)
        elif text != problem:
            problem = text
            log.warning(name, text=text)

    def failed(error: ClusterError) -> None:
        event("certificate.failed", str(error))

    service.readiness.mark_unsynced(Sync.CERTIFICATE)
    served = ServedCertificate(text, lambda: service.readiness.mark_synced(Sync.CERTIFICATE), event)
    runtime.metrics.gauge(
        "dragoman_certificate_end_timestamp_seconds",
        "End of the validity of the serving certificate; 0 while there is none.",
        lambda: served.ends,
    )
    policy = RotationPolicy(
        managed.names, managed.authority_seconds, managed.leaf_seconds, managed.overlap_seconds
    )
    rotator = CertificateRotator(
        SecretClient(client),
        (namespace, managed.secret),
        WebhookClient(client, managed.webhooks).publish,
        policy,
        lambda: int(time()),
        event,
    )
    selection = Selection(SECRETS, namespace, fields=f"metadata.name={managed.secret}")
    watch = Reflector(client, selection, Secret, served, report=failed)
    election = Election(client, namespace, LEASE, identity, report=failed)
    return watch.run(), election.run(rotator.run)
