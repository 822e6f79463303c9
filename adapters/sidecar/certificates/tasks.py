"""What a service with a certificate of its own runs beside it."""

from collections.abc import Callable, Coroutine, Sequence
from time import time
from typing import Any

from adapters.cluster.api.client import KubeClient
from adapters.cluster.api.error import ClusterError
from adapters.cluster.api.paths import SECRETS
from adapters.cluster.objects.lease import Election
from adapters.cluster.objects.secret import SecretClient
from adapters.cluster.objects.webhooks import WebhookClient
from adapters.cluster.watch.reflector import Reflector
from adapters.cluster.watch.selection import Selection
from adapters.sidecar.certificates.keeper import CertificateRotator
from adapters.sidecar.certificates.rotation import RotationPolicy
from adapters.sidecar.certificates.secret import KubeSecretStorage, ServedCertificate
from adapters.sidecar.settings import Managed
from adapters.wire.kube import Secret

LEASE = "dragoman-certificates"
"""Not every service makes certificates (a sidecar has none), so that this has its own Lease."""

Task = Coroutine[Any, Any, Any]


def tasks(
    client: KubeClient,
    namespace: str,
    identity: str,
    managed: Managed,
    served: ServedCertificate,
    tell: Callable[[str, str], None],
    failed: Callable[[ClusterError], None],
) -> Sequence[Task]:
    """Serve what the Secret has, and keep it as it should be whenever the Lease is ours.

    Args:
        client: the API server.
        namespace: of Secret and Lease.
        identity: of this process.
        managed: the settings.
        served: takes each new certificate.
        tell: told an event and a text about it.
        failed: told where the API server fails; it is tried again.
    """
    plan = RotationPolicy(
        managed.names, managed.authority_seconds, managed.leaf_seconds, managed.overlap_seconds
    )
    vault = KubeSecretStorage(SecretClient(client), namespace, managed.secret)
    trust = WebhookClient(client, managed.webhooks)
    chosen = Selection(SECRETS, namespace, fields=f"metadata.name={managed.secret}")
    follow = Reflector(client, chosen, Secret, served, report=failed)
    election = Election(client, namespace, LEASE, identity, report=failed)
    return follow.run(), election.run(
        lambda: CertificateRotator(vault, trust, plan, lambda: int(time()), tell).run()
    )
