"""Creates the ResourceClaims of converted pods; runs in the elected leader only.

Admission has named them in the pod and written nothing. kube-scheduler leaves a pod alone until its
claims are there. Each claim is owned by its pod, so that it is deleted with it.
"""

from collections.abc import Callable, Mapping
from typing import NoReturn, Protocol

from adapters.dialects.dialect import DialectError
from adapters.dialects.translation.conversion import Inexact, converted, is_converted
from adapters.service.cluster_state.unbound_pods import UnboundPods
from adapters.service.decide.conversion_policy import ConversionPolicy
from adapters.service.decide.service import Service
from adapters.service.reconcile.concurrency import for_each_limited
from adapters.wire.kube import Pod
from core.requests.pod_ref import PodRef

POLL = 1.0
"""Seconds between two looks at the pods while none is added."""

AGAIN = 5.0
"""Seconds until the next attempt for a pod that failed."""


class ClaimCreator(Protocol):
    """Creates claims of pods."""

    async def create(self, pod: PodRef, name: str, spec: Mapping[str, object]) -> bool:
        """Create a claim that a pod owns; no effect where it is there.

        Returns:
            whether the claim of this name is the pod's.

        Raises:
            OSError: the API server rejected the write, or did not answer.
        """
        ...


class Conversions:
    """Gives converted pods their claims, and reports the pods that were not converted."""

    def __init__(
        self,
        service: Service,
        policy: ConversionPolicy,
        pods: UnboundPods,
        server: ClaimCreator,
        clock: Callable[[], float],
        report: Callable[[Pod, str, str], None],
    ) -> None:
        """Create no claim yet.

        Args:
            service: has the dialects.
            policy: which pods are converted.
            pods: pods that no scheduler has bound; ``needs_a_look`` selects them.
            server: creates claims.
            clock: monotonic seconds.
            report: called with a pod, a reason of one word, and a sentence.
        """
        self._service = service
        self._policy = policy
        self._pods = pods
        self._server = server
        self._clock = clock
        self._report = report
        self._done: set[str] = set()
        self._not_before: dict[str, float] = {}

    async def run(self) -> NoReturn:
        """Create claims until cancelled."""
        self._done.clear()
        while True:
            await self.look()
            await self._pods.wait(POLL)

    async def look(self) -> None:
        """Give the pods that wait their claims, a few at a time."""
        waiting, now = self._pods.all(), self._clock()
        self._done &= waiting.keys()
        self._not_before = {uid: at for uid, at in self._not_before.items() if uid in waiting}
        due = [
            pod
            for uid, pod in waiting.items()
            if uid not in self._done and self._not_before.get(uid, now) <= now
        ]
        await for_each_limited(self._one, due)

    async def _one(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        try:
            await self._create(pod) if is_converted(pod) else self._explain(pod)
        except DialectError as error:
            self._report(pod, "NotConverted", str(error))
        except OSError as error:
            self._not_before[uid] = self._clock() + AGAIN
            self._report(pod, "ClaimNotCreated", str(error))
            return
        self._done.add(uid)

    async def _create(self, pod: Pod) -> None:
        meta = pod.metadata
        if not self._policy.selects(pod):
            self._report(pod, "NotConverted", "pods of this namespace or scheduler get no claims")
            return
        owner = PodRef(meta.namespace or "default", meta.name, meta.uid)
        for name, spec in converted(pod, self._service.pod_requests.dialects).values():
            if not await self._server.create(owner, name, spec):
                text = f"ResourceClaim {name} exists and is not of this pod: create the pod again"
                self._report(pod, "ClaimNotCreated", text)

    def _explain(self, pod: Pod) -> None:
        found = self._policy.convert(pod)
        if found is None:
            return
        text = "was created while the service was not asked: create the pod again"
        if isinstance(found, Inexact):
            text = "; ".join(found.losses)
        self._report(pod, "NotConverted", f"stays a pod of its dialect: {text}")


def needs_a_look(policy: ConversionPolicy, service: Service) -> Callable[[Pod], bool]:
    """Return which pods are converted, or would be if they were exact."""

    def selects(pod: Pod) -> bool:
        dialects = service.pod_requests.dialects
        return is_converted(pod) or (
            policy.selects(pod) and any(dialect.matches(pod) for dialect in dialects)
        )

    return selects
