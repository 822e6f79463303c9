"""The certificate that the service makes itself: its tasks, its metric and its log."""

from collections.abc import Coroutine, Sequence
from time import time
from typing import Any

from adapters.cluster.api.client import KubeClient
from adapters.cluster.api.error import ClusterError
from adapters.cluster.api.paths import SECRETS
from adapters.cluster.objects.certificates import SecretClient, WebhookClient
from adapters.cluster.objects.lease import Election
from adapters.cluster.watch.reflector import Reflector
from adapters.cluster.watch.selection import Selection
from adapters.service.certificates.rotation import RotationPolicy
from adapters.service.certificates.secret import CertificateRotator, ServedCertificate
from adapters.service.certificates.tls_context import CertificateText
from adapters.service.in_cluster.watches import Sync
from adapters.service.observe.decision_log import Logger
from adapters.service.runtime import ServiceRuntime
from adapters.service.settings.sections import Managed
from adapters.wire.kube import Secret

LEASE = "dragoman-certificates"
"""A Lease of its own, because not every replica makes certificates: a sidecar does not."""

Task = Coroutine[Any, Any, Any]

PROBLEMS = frozenset(("certificate.failed", "certificate.lost", "certificate.unusable"))


class CertificateLog:
    """Logs events of the certificate; a problem that lasts is logged once."""

    def __init__(self, log: Logger) -> None:
        self._log = log
        self._problem = ""

    def event(self, event: str, text: str) -> None:
        """Log an event with a sentence about it."""
        if event not in PROBLEMS:
            self._log.info(event, text=text)
        elif text != self._problem:
            self._problem = text
            self._log.warning(event, text=text)

    def failed(self, error: ClusterError) -> None:
        """Log a request to the API server that failed; the tasks repeat it."""
        self.event("certificate.failed", str(error))


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

    Args:
        runtime: is not ready before it serves a certificate.
        client: the API server.
        namespace: of the Secret and of the Lease.
        identity: of this process.
        text: the TLS context that serves the certificate.
        managed: the settings.
        log: of this process.
    """
    service, events = runtime.service, CertificateLog(log)
    service.readiness.mark_unsynced(Sync.CERTIFICATE)
    served = ServedCertificate(
        text, lambda: service.readiness.mark_synced(Sync.CERTIFICATE), events.event
    )
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
        events.event,
    )
    selection = Selection(SECRETS, namespace, fields=f"metadata.name={managed.secret}")
    watch = Reflector(client, selection, Secret, served, report=events.failed)
    election = Election(client, namespace, LEASE, identity, report=events.failed)
    return watch.run(), election.run(rotator.run)
