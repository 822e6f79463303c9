"""The review of a new pod: what its answer depends on, and the answer, as a pure function.

A pod without a share is allowed as it is. Containers that request a share are closed: they see no
card until the node agent opens one.

Containers do not start while the node agent is away, if the runtime supports it: the default
validator of containerd 2.2 and later, if it is enabled, rejects a container whose pod names a
plugin that is not connected; older runtimes ignore the annotation. Source:
containerd/nri pkg/plugin/annotations.go, plugins/default-validator/default-validator.go.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from adapters.accounting.pod_requests import PodRequest
from adapters.dialects import allocation_record
from adapters.dialects.dialect import NO_DEFAULTS, AdmissionDefaults, ByContainer, DialectError
from adapters.wire import admission
from adapters.wire.admission import Patch, escaped
from adapters.wire.decode.decoder import Decoder, UnreadableError
from adapters.wire.kube import Pod

VOID_DEVICES = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}
"""Makes NVIDIA's runtime inject no card; only the node agent replaces the value.
Source: NVIDIA/nvidia-container-toolkit internal/config/image/devices.go."""

SHARE_MARK = {"name": allocation_record.MARK, "value": "1"}
"""Shows the node agent that a container must not start before it has its share."""

KEY = "required-plugins.noderesource.dev"

_LONGEST = 63
"""Characters of the part of an annotation's key after the slash, at most.
Source: k8s.io/apimachinery/pkg/util/validation/validation.go, qualifiedNameMaxLength."""

_NAMES = Decoder(list[str])


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFacts:
    """What the answer to a review of a new pod depends on.

    Attributes:
        raw: the pod, as JSON.
        pod: the same, as it will be.
        forged: the field in which its author wrote what only a scheduler or admission may write;
            None where there is none.
        found: what the pod requests, the error where that is invalid, None for no share.
        added: what its dialect and the container runtime need, where the author wrote nothing.
        too_large: why the quota of the namespace never allows so much; None where it may.
        advice: about names that look wrong.
    """

    raw: bytes
    pod: Pod
    forged: str | None = None
    found: PodRequest | DialectError | None = None
    added: AdmissionDefaults = NO_DEFAULTS
    too_large: str | None = None
    advice: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Deny:
    """The pod is not created: the cause in one word, for metrics, and a text for its author."""

    cause: str
    text: str


@dataclass(frozen=True, slots=True)
class Allow:
    """The pod is created, with notes for its author; without a patch as it is.

    The dialect is empty where the pod requests no share.
    """

    notes: tuple[str, ...] = ()
    dialect: str = ""
    patch: Patch | None = None


def decide_pod(facts: PodFacts) -> Deny | Allow:
    """Return the answer to the review of a new pod."""
    if facts.forged is not None:  # it would count as what a scheduler decided
        return Deny("forged", f"{facts.forged}: only the scheduler may write this; remove it")
    pod, added = facts.pod, facts.added
    match facts.found:
        case None:
            return Allow(facts.advice)
        case DialectError() as error:
            return Deny("invalid", str(error))
        case PodRequest(request=request, dialect=dialect) if request.plugin is not None:
            # Where it goes is not known yet, and there it may be no pod of ours.
            return Allow((*request.notes, *facts.advice), dialect.name)
        case PodRequest() if pod.spec.node_name:  # no scheduler would ask about it
            text = f"spec.nodeName: {pod.spec.node_name!r}: a pod that requests a share of a card "
            text += "must be scheduled; use spec.nodeSelector or node affinity"
            return Deny("node_name", text)
        case PodRequest() if facts.too_large is not None:
            return Deny("quota", facts.too_large)
        case PodRequest(request=request, dialect=dialect) as found:
            present = pod.metadata.annotations
            patch = admission.add_entries("annotations", present, added.annotations)
            patch += add_limits(pod, added.limits)
            patch += close_containers(facts.raw, sharers(found), added.variables)
            return Allow((*request.notes, *facts.advice), dialect.name, patch)


def sharers(pod_request: PodRequest) -> frozenset[str]:
    """Return the names of the containers that request a share."""
    return frozenset(container.name for container in pod_request.request.containers)


def close_containers(raw: bytes, sharers: frozenset[str], more: ByContainer) -> Patch:
    """Let containers start without any card, mark them, and set further variables in them.

    A variable is set wherever it stands.
    """
    spec = admission.read_environments(raw).spec
    lists = (("initContainers", spec.init_containers or ()), ("containers", spec.containers))
    patch: Patch = []
    for field, containers in lists:
        for index, container in enumerate(containers):
            if container.name not in sharers:
                continue
            path, env, own = f"/spec/{field}/{index}/env", container.env, more.get(container.name)
            wanted = [VOID_DEVICES, SHARE_MARK]
            wanted += [{"name": name, "value": value} for name, value in (own or {}).items()]
            if env is None:
                patch.append({"op": "add", "path": path, "value": wanted})
                continue
            for variable in wanted:
                defined = [at for at, one in enumerate(env) if one.name == variable["name"]]
                patch += [
                    {"op": "replace", "path": f"{path}/{at}", "value": variable} for at in defined
                ]
                if not defined:
                    patch.append({"op": "add", "path": f"{path}/-", "value": variable})
    return patch


def add_limits(pod: Pod, wanted: ByContainer) -> Patch:
    """Add limits to containers that have some; the API server derives the requests from them."""
    spec = pod.spec
    lists = (("initContainers", spec.init_containers or ()), ("containers", spec.containers))
    return [
        {
            "op": "add",
            "path": f"/spec/{field}/{index}/resources/limits/{escaped(resource)}",
            "value": amount,
        }
        for field, containers in lists
        for index, container in enumerate(containers)
        for resource, amount in wanted.get(container.name, {}).items()
    ]


def required(plugin: str, containers: Iterable[str], present: Mapping[str, str]) -> dict[str, str]:
    """Return the annotations by which containers require one more plugin.

    For a container whose name is too long for a key of its own, the whole pod requires the plugin.

    Args:
        plugin: the name under which it registers.
        containers: their names.
        present: the pod's annotations.

    Raises:
        DialectError: the list of plugins that the pod has already is no JSON array of names.
    """
    wanted: dict[str, str] = {}
    for container in sorted(containers):
        keys = [f"{KEY}/pod", KEY]
        if len(own := f"container.{container}") <= _LONGEST:
            keys.insert(0, f"{KEY}/{own}")
        # Only the most specific key counts, so the new one repeats the plugins of the others.
        effective = next((key for key in keys if key in present), None)
        try:
            named = [] if effective is None else _NAMES.decode(present[effective])
        except UnreadableError:
            right = 'must be a list of names in JSON, such as ["a", "b"]'
            field = f"metadata.annotations[{effective}]"
            raise DialectError(field, present[str(effective)], right) from None
        wanted[keys[0]] = msgspec.json.encode([*dict.fromkeys((*named, plugin))]).decode()
    return wanted
