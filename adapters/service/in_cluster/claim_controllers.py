"""The leader's controllers of ResourceClaims."""

from time import monotonic

from adapters.accounting.claim_cache import ClaimCache
from adapters.cluster.api.client import KubeClient
from adapters.cluster.objects.claims import ClaimClient
from adapters.cluster.objects.events import EventRecorder, EventSubject
from adapters.cluster.objects.shadow_claims import ShadowClaimClient
from adapters.service.cluster_state.cluster_cache import ClusterCache
from adapters.service.cluster_state.unbound_pods import UnboundPods
from adapters.service.decide.conversion_policy import ConversionPolicy
from adapters.service.decide.service import Service
from adapters.service.observe.decision_log import Logger
from adapters.service.observe.metrics import Metrics
from adapters.service.reconcile.claim_previews.claim_conditions import ClaimConditions
from adapters.service.reconcile.claim_previews.conversions import Conversions, needs_a_look
from adapters.service.reconcile.claim_previews.unused_claims import UnusedClaims
from adapters.service.reconcile.shadows import ShadowPublisher
from adapters.service.settings.settings import Settings
from adapters.wire.kube import Pod, full_name


class ClaimControllers:
    """Makes the controllers of one service."""

    def __init__(
        self, client: KubeClient, claims: ClaimCache, settings: Settings, log: Logger
    ) -> None:
        """Make none yet.

        Args:
            client: of the API server.
            claims: of the cluster.
            settings: of the service.
            log: of the service.
        """
        self._client = client
        self._claims = claims
        self._settings = settings
        self._log = log

    def shadows(self, service: Service) -> ShadowPublisher:
        """Make the publisher of shadow claims."""
        namespace = self._settings.namespace
        return ShadowPublisher(
            service.ledgers,
            self._claims,
            ShadowClaimClient(self._client, namespace),
            namespace,
            monotonic,
            lambda node, text: self._log.warning(
                "shadow_claims.write_failed", node=node, text=text
            ),
        )

    def conditions(self, service: Service) -> ClaimConditions:
        """Make what answers the schedulers that wait for the ledger."""
        return ClaimConditions(
            service,
            self._claims,
            ClaimClient(self._client),
            monotonic,
            lambda node, text: self._log.warning("claim_conditions.failed", node=node, text=text),
        )

    def conversions(
        self, service: Service, policy: ConversionPolicy, cache: ClusterCache, events: EventRecorder
    ) -> Conversions:
        """Make what creates the claims of converted pods, and feed it from the cache."""

        def report(pod: Pod, reason: str, text: str) -> None:
            self._log.warning("conversion.failed", pod=full_name(pod), reason=reason, text=text)
            subject = EventSubject.pod(pod)
            events.emit(subject, reason, text, kind="Warning", action="Converting")

        pods = UnboundPods(needs_a_look(policy, service))
        cache.follow_pods(pods)
        return Conversions(service, policy, pods, ClaimClient(self._client), monotonic, report)

    def unused(self, metrics: Metrics) -> UnusedClaims:
        """Make what counts and deallocates claims that no pod uses."""
        settings = self._settings.dra
        unused = UnusedClaims(
            self._claims,
            ClaimClient(self._client),
            settings.deallocate_unused,
            settings.unused_seconds,
            monotonic,
            lambda claim, text: self._log.warning("claims.unused", claim=claim, text=text),
        )
        metrics.gauge(
            "dragoman_claims_unused",
            "Claims that keep devices although no pod has used them for dra.unusedSeconds;"
            " 0 where it does not lead.",
            lambda: unused.count,
        )
        return unused
