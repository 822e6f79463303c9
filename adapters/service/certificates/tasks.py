"""The tasks of a service that makes its certificate itself."""

from collections.abc import Callable, Coroutine, Sequence
from time import time
from typing import Any

from adapters.cluster.api.client import KubeClient
from adapters.cluster.api.error import ClusterError
from adapters.cluster.api.paths import SECRETS
from adapters.cluster.objects.certificates import SecretClient, WebhookClient
from adapters.cluster.objects.lease import Election
from adapters.cluster.watch.reflector import Reflector
from adapters.cluster.watch.selection import Selection
from adapters.service.certificates.keeper import CertificateRotator
from adapters.service.certificates.rotation import RotationPolicy
from adapters.service.certificates.secret import KubeSecretStorage, ServedCertificate
from adapters.service.settings.sections import Managed
from adapters.wire.kube import Secret

LEASE = "dragoman-certificates"
"""A Lease of its own, because not every replica makes certificates: a sidecar does not."""

Task = Coroutine[Any, Any, Any]


def tasks(
    client: KubeClient,
    namespace: str,
    identity: str,
    managed: Managed,
    served: ServedCertificate,
    report: Callable[[str, str], None],
    failed: Callable[[ClusterError], None],
) -> Sequence[Task]:
    """Return the watch that serves the Secret's certificate, and the leader's rotation.

    Args:
        client: the API server.
        namespace: of the Secret and of the Lease.
        identity: of this process.
        managed: the settings.
        served: serves each new certificate.
        report: called with a log event and a sentence about it.
        failed: called with each error of the API server; the tasks retry.
    """
    policy = RotationPolicy(
        managed.names, managed.authority_seconds, managed.leaf_seconds, managed.overlap_seconds
    )
    storage = KubeSecretStorage(SecretClient(client), namespace, managed.secret)
    publisher = WebhookClient(client, managed.webhooks)
    selection = Selection(SECRETS, namespace, fields=f"metadata.name={managed.secret}")
    watch = Reflector(client, selection, Secret, served, report=failed)
    election = Election(client, namespace, LEASE, identity, report=failed)
    return watch.run(), election.run(
        lambda: CertificateRotator(storage, publisher, policy, lambda: int(time()), report).run()
    )
