"""What the API server asks before it writes a pod, or binds one to a node.

The Binding is the commit point for every scheduler that does not bind through us. A choice of
cards that comes with it is adopted if it is sound, corrected on the same node if it is not, and
refused if nothing fits there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import msgspec

from adapters.dialects import record
from adapters.dialects.dialect import Dialect, DialectError
from adapters.sidecar.decide.committer import Committed
from adapters.sidecar.decide.ledger_writer import LedgerContended
from adapters.sidecar.decide.pod_requests import PodRequest, read
from adapters.sidecar.decide.ports import DecisionRecord, NodeLocked, Outcome
from adapters.sidecar.decide.service import (
    Service,
    UnknownPod,
    invalid,
    main_cause,
    with_annotations,
)
from adapters.sidecar.endpoints.required_plugins import required
from adapters.wire import admission, body
from adapters.wire.admission import AdmissionRequest, Binding, Patch
from adapters.wire.kube import Pod, annotations, full_name, labels
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Grant
from core.requests.pod_ref import PodRef
from core.requests.reason import Reason

CLOSED = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}
"""What keeps NVIDIA's runtime from giving a container any card; only the node hook opens it.
Source: NVIDIA/nvidia-container-toolkit internal/config/image/devices.go."""

MARKED = {"name": record.MARK, "value": "1"}
"""By which the node hook knows that a container must not start before it has its share."""

FORBIDDEN = 403
CONFLICT = 409
UNAVAILABLE = 503

_POD = msgspec.json.Decoder(Pod)


class Admission:
    """Answers reviews, bytes in and bytes out; raises as ``KubeFlow`` does."""

    def __init__(self, service: Service, required_plugin: str = "") -> None:
        """Answer for a service.

        Args:
            service: that decides.
            required_plugin: of the runtime, without which no container that asks is created;
                empty where that is not to be said.
        """
        self._service = service
        self._required_plugin = required_plugin

    async def pods(self, content: bytes) -> bytes:
        """A pod is to be created: refuse what cannot be meant, write defaults, close the door."""
        question = admission.read_review(content)
        if question.operation != "CREATE" or question.sub_resource:
            return admission.allowed(question.uid)
        raw = admission.object_of(question)
        pod = _in_namespace(body.read(raw, _POD), question)
        dialects = self._service.pod_requests.dialects
        forged = _forged(pod, dialects)
        if forged is not None:
            text = f"{forged}: only the scheduler may write this; take it out"
            return self._deny("admit", pod, question, FORBIDDEN, "forged", text)
        try:
            asking = read(pod, dialects)
            wanted = {} if asking is None else self._wanted(pod, asking)
        except DialectError as error:
            self._tell(invalid("admit", pod, error))
            return admission.denied(question.uid, FORBIDDEN, str(error))
        if asking is None:
            return admission.allowed(question.uid)
        if pod.spec.node_name:
            text = f"spec.nodeName: {pod.spec.node_name!r}: a pod that asks for a share of a card "
            text += "must be scheduled; use spec.nodeSelector or node affinity"
            return self._deny("admit", pod, question, FORBIDDEN, "node_name", text)
        patch = admission.add_entries("annotations", pod.metadata.annotations, wanted)
        patch += _close(raw, asking)
        told = DecisionRecord("admit", Outcome.FITS, full_name(pod), dialect=asking.dialect.name)
        self._tell(told)
        return admission.allowed(question.uid, patch, asking.request.notes)

    async def bindings(self, content: bytes) -> bytes:
        """A pod is to be bound: commit its cards, and write them into the Binding."""
        question = admission.read_review(content)
        if question.operation != "CREATE":
            return admission.allowed(question.uid)
        self._service.check_ready()
        binding = admission.read_binding(question)
        ref = PodRef(
            question.namespace or binding.metadata.namespace or "default",
            question.name or binding.metadata.name,
            binding.metadata.uid,
        )
        told = DecisionRecord("binding", Outcome.ERROR, str(ref), ref.uid, node=binding.target.name)
        try:
            asking = await self._asking(ref, binding)
            if asking is None:
                return admission.allowed(question.uid)
            told = replace(told, uid=asking.request.uid, dialect=asking.dialect.name)
            return await self._commit(question, binding, asking, told)
        except DialectError as error:
            told = replace(told, outcome=Outcome.INVALID, cause="invalid", text=str(error))
            return self._refuse(question, FORBIDDEN, told)
        except NodeLocked as error:
            told = replace(told, outcome=Outcome.REFUSED, cause="locked", text=str(error))
            return self._refuse(question, CONFLICT, told)
        except (UnknownPod, LedgerContended) as error:
            return self._refuse(
                question, CONFLICT, replace(told, cause="retry", text=f"try again: {error}")
            )
        except OSError as error:
            text = f"no answer from the ledger's store or the cluster: {error}"
            return self._refuse(question, UNAVAILABLE, replace(told, cause="store", text=text))

    async def _commit(
        self, question: AdmissionRequest, binding: Binding, asking: PodRequest, told: DecisionRecord
    ) -> bytes:
        node = binding.target.name
        chosen = _chosen(binding)
        claimed = self._claimed(asking, node, chosen)
        if question.dry_run:
            ledger = self._service.ledgers.ledger(node)
            refused = self._service.evaluate(asking).rejection(node)
            if ledger is None or refused is not None:
                text = refused.reason.text() if refused else "no cards"
                told = replace(told, outcome=Outcome.REFUSED, cause="dry_run", text=text)
                return self._refuse(question, CONFLICT, told)
            return admission.allowed(question.uid)
        found: Committed | Reason | None = self._service.posting(asking.request.uid, node)
        if found is None:
            found, _ = await self._service.commit(asking, node, claimed)
        if isinstance(found, Reason):
            text = f"{node}: {found.text()}"
            cause = main_cause([found])
            told = replace(told, outcome=Outcome.REFUSED, cause=cause, text=text)
            return self._refuse(question, CONFLICT, told)
        if claimed and claimed == found.placement.grants:
            outcome = Outcome.ADOPTED if found.claim_accepted else Outcome.BOUND
            self._tell(replace(told, outcome=outcome))
            return admission.allowed(question.uid)
        merged = with_annotations(asking.pod, {**annotations(asking.pod), **chosen})
        corrected = asking.dialect.has_result(merged)
        self._tell(replace(told, outcome=Outcome.CORRECTED if corrected else Outcome.BOUND))
        return admission.allowed(question.uid, self._patch(binding, asking, found))

    async def _asking(self, ref: PodRef, binding: Binding) -> PodRequest | None:
        """What the pod asks for, with the choice that its scheduler made.

        Schedulers write it on the pod just before they bind, so that a watch may not have told of
        it yet: the pod is read anew, unless the choice is ours or comes with the Binding.
        """
        service = self._service
        asking = service.pod_requests.read(await service.find(ref))
        if asking is None or service.chose(asking.request.uid, binding.target.name):
            return asking
        if asking.dialect.has_result(with_annotations(asking.pod, _chosen(binding))):
            return asking
        return service.pod_requests.read(await service.newest(ref))

    def _claimed(
        self, asking: PodRequest, node: str, chosen: Mapping[str, str]
    ) -> tuple[Grant, ...]:
        """The choice of cards that a scheduler made; empty where there is none that is readable.

        It stands in the Binding, or on the pod where the scheduler wrote it before binding.
        """
        pod = with_annotations(asking.pod, {**annotations(asking.pod), **chosen})
        known: NodeLedger | None = self._service.ledgers.ledger(node)
        if known is None or not asking.dialect.has_result(pod):
            return ()
        try:
            return asking.dialect.read_result(pod, asking.request, known.node)
        except DialectError:
            return ()

    def _wanted(self, pod: Pod, asking: PodRequest) -> Mapping[str, str]:
        """A vocabulary's defaults where the author says nothing, and whom the runtime must ask."""
        wanted = asking.dialect.admission_defaults(pod, asking.request)
        if not self._required_plugin:
            return wanted
        asked = {ask.name for ask in asking.request.containers}
        return {**wanted, **required(self._required_plugin, asked, annotations(pod))}

    def _patch(self, binding: Binding, asking: PodRequest, committed: Committed) -> Patch:
        result = self._service.written(asking, committed)
        meta = binding.metadata
        stale = (meta.annotations or {}).keys() & asking.dialect.result_keys
        removed: Patch = [
            {"op": "remove", "path": f"/metadata/annotations/{admission.escaped(key)}"}
            for key in sorted(stale - result.annotations.keys())
        ]
        return [
            *removed,
            *admission.add_entries("annotations", meta.annotations, result.annotations),
            *admission.add_entries("labels", meta.labels, result.labels),
        ]

    def _deny(
        self, verb: str, pod: Pod, question: AdmissionRequest, code: int, cause: str, text: str
    ) -> bytes:
        told = DecisionRecord(verb, Outcome.INVALID, full_name(pod), cause=cause, text=text)
        return self._refuse(question, code, told)

    def _refuse(self, question: AdmissionRequest, code: int, decided: DecisionRecord) -> bytes:
        self._tell(decided)
        return admission.denied(question.uid, code, decided.text)

    def _tell(self, decided: DecisionRecord) -> None:
        self._service.ports.decision_log.record(decided)


def _chosen(binding: Binding) -> Mapping[str, str]:
    return binding.metadata.annotations or {}


def _in_namespace(pod: Pod, question: AdmissionRequest) -> Pod:
    """The pod as it will be: at its creation namespace and name may stand beside it only."""
    meta = msgspec.structs.replace(
        pod.metadata,
        namespace=question.namespace or pod.metadata.namespace,
        name=pod.metadata.name or question.name or "(generated)",
    )
    return msgspec.structs.replace(pod, metadata=meta)


def _forged(pod: Pod, dialects: tuple[Dialect, ...]) -> str | None:
    """Where a pod's author has written what only a scheduler may write."""
    keys = frozenset((record.KEY,)).union(*(dialect.result_keys for dialect in dialects))
    for field, entries in (("annotations", annotations(pod)), ("labels", labels(pod))):
        for key in sorted(keys & entries.keys()):
            return f"metadata.{field}[{key}]"
    return None


def _close(raw: bytes, asking: PodRequest) -> Patch:
    """Every container that asks for a share starts without any card, and says that it asked."""
    asked = {ask.name for ask in asking.request.containers}
    spec = admission.read_environments(raw).spec
    patch: Patch = []
    for field, containers in (
        ("initContainers", spec.init_containers or ()),
        ("containers", spec.containers),
    ):
        for place, container in enumerate(containers):
            if container.name in asked:
                patch += _set(f"/spec/{field}/{place}/env", container.env, (CLOSED, MARKED))
    return patch


def _set(
    path: str, env: list[admission.Variable] | None, wanted: Sequence[Mapping[str, str]]
) -> Patch:
    """Variables as they must be, wherever they stand."""
    if env is None:
        return [{"op": "add", "path": path, "value": list(wanted)}]
    patch: Patch = []
    for variable in wanted:
        there = [place for place, one in enumerate(env) if one.name == variable["name"]]
        patch += [{"op": "replace", "path": f"{path}/{at}", "value": variable} for at in there]
        if not there:
            patch.append({"op": "add", "path": f"{path}/-", "value": variable})
    return patch
