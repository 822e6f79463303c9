"""Access to the API server: whose credentials, and whether it serves what the service needs."""

from pathlib import Path

from adapters.cluster.api.client import KubeClient
from adapters.cluster.api.credentials import KubeCredentials, own_credentials
from adapters.cluster.api.error import NOT_FOUND, ClusterError
from adapters.cluster.api.paths import DEVICE_CLASSES, NODE_LEDGERS
from adapters.service.observe.decision_log import Logger
from adapters.service.settings.settings import SettingsError


def credentials(kubeconfig: Path | None) -> KubeCredentials:
    """Credentials of the settings' file, else of our pod, else of the files that kubectl reads.

    Raises:
        SettingsError: there are none, or they cannot be used.
    """
    try:
        return own_credentials(kubeconfig)
    except ClusterError as error:
        problem = error.message.replace("--kubeconfig", "the setting kubeconfig")
        raise SettingsError(f"store: 'kubernetes': {problem.partition('; pass one')[0]}") from error


async def check_served(client: KubeClient, log: Logger, *, claims: bool) -> None:
    """Check that the API server serves NodeLedgers; if it does not answer, log that.

    Args:
        client: of the API server.
        log: of this process.
        claims: whether ResourceClaims count. Where the API server does not serve them, that is
            logged too: there are none to see.

    Raises:
        SettingsError: the custom resource definition is not installed.
    """
    try:
        await client.get(NODE_LEDGERS.collection(), {"limit": "1"})
        if claims and await client.find(DEVICE_CLASSES.collection(), {"limit": "1"}) is None:
            log.warning(
                "dra.unavailable",
                text="dra.claims: the API server does not serve resource.k8s.io/v1, so that no"
                " ResourceClaim is seen: use Kubernetes 1.34 or later, with this API on",
            )
    except ClusterError as error:
        if error.status == NOT_FOUND:
            raise SettingsError(
                "store: 'kubernetes': the cluster does not know NodeLedgers;"
                " install configs/crd/nodeledgers.yaml"
            ) from error
        log.warning("cluster.unreachable", text=str(error))
