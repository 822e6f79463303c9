"""The certificate that the service makes itself: its tasks, its metric and its log."""

from collections.abc import Sequence

from adapters.cluster.api.client import KubeClient
from adapters.cluster.api.error import ClusterError
from adapters.service.certificates.secret import ServedCertificate
from adapters.service.certificates.tasks import Task, tasks
from adapters.service.certificates.tls_context import CertificateText
from adapters.service.in_cluster.readiness import Sync
from adapters.service.observe.decision_log import Logger
from adapters.service.runtime import ServiceRuntime
from adapters.service.settings.sections import Managed

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
    return tasks(client, namespace, identity, managed, served, events.event, events.failed)
