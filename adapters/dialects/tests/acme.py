"""A fourth dialect, for tests: own resource, own annotations, own vendor, and a registration.

A pod requests ``acme.example/mib`` of one card. A node has ``acme.example/cards: uuid=MiB,...``.
"""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self

from adapters.dialects import registry
from adapters.dialects.containers import pod_containers, resource_names, whole_amount
from adapters.dialects.dialect import (
    AdmissionDefaults,
    AdoptedAllocation,
    Defaults,
    Dialect,
    DialectError,
    Documents,
    NodeDescription,
    Result,
)
from adapters.dialects.info import DialectInfo, DialectStyle, RuntimeHook
from adapters.wire.kube import DeviceObject, KubeNode, Pod, annotations, full_name
from core.hardware.card import Card
from core.hardware.node import Node
from core.hardware.quantity import MIB
from core.requests.grant import Grant, Placement
from core.requests.request import ContainerRequest, Request

NAME = "acme"
RESOURCE = "acme.example/mib"
CARDS = "acme.example/cards"
ALLOCATED = "acme.example/allocated"


@dataclass(frozen=True, slots=True)
class Acme(Dialect):
    """The simplest dialect: shares of memory, one card for each container."""

    name = NAME
    result_keys = frozenset({ALLOCATED})

    @classmethod
    def configured(cls, settings: Documents, defaults: Defaults) -> Self:  # noqa: ARG003
        return cls()

    def matches(self, pod: Pod) -> bool:
        return RESOURCE in resource_names(pod)

    def read_request(self, pod: Pod) -> Request:
        amounts = [(each, whole_amount(each, RESOURCE, 1, 1 << 30)) for each in pod_containers(pod)]
        return Request(
            uid=pod.metadata.uid,
            pod=full_name(pod),
            dialect=NAME,
            containers=tuple(
                ContainerRequest(each.container.name, 1, memory=mib * MIB, phase=each.phase)
                for each, mib in amounts
                if mib
            ),
        )

    def admission_defaults(self, pod: Pod, request: Request) -> AdmissionDefaults:  # noqa: ARG002
        return AdmissionDefaults({"acme.example/admitted": "yes"})

    def read_node(self, node: KubeNode, device: DeviceObject | None) -> NodeDescription:  # noqa: ARG002
        entries = filter(None, annotations(node).get(CARDS, "").split(","))
        pairs = [entry.split("=") for entry in entries]
        return NodeDescription(
            tuple(
                Card(
                    uuid=uuid,
                    node=node.metadata.name,
                    index=index,
                    vendor=NAME,
                    model="A1",
                    memory=int(mib) * MIB,
                    slots=8,
                    dialects=frozenset({NAME}),
                )
                for index, (uuid, mib) in enumerate(pairs)
            )
        )

    def resources(self, cards: Sequence[Card]) -> Mapping[str, int]:
        described = [card for card in cards if NAME in card.dialects]
        return {RESOURCE: sum(card.memory // MIB for card in described)} if described else {}

    def has_result(self, pod: Pod) -> bool:
        return ALLOCATED in annotations(pod)

    def read_result(self, pod: Pod, request: Request, node: Node) -> tuple[Grant, ...]:  # noqa: ARG002
        uuids = annotations(pod)[ALLOCATED].split(",")
        if len(uuids) != len(request.containers):
            raise DialectError(ALLOCATED, ",".join(uuids), "must name a card for each container")
        return tuple(
            Grant(wanted.name, uuid, wanted.memory or 0, 0, exclusive=False, phase=wanted.phase)
            for wanted, uuid in zip(request.containers, uuids, strict=True)
        )

    def read_adopted(self, pod: Pod, node: Node) -> AdoptedAllocation | None:  # noqa: ARG002
        return None

    def write_result(
        self,
        pod: Pod,  # noqa: ARG002
        request: Request,  # noqa: ARG002
        placement: Placement,
        node: Node,  # noqa: ARG002
        now: int,  # noqa: ARG002
    ) -> Result:
        return Result({ALLOCATED: ",".join(grant.card for grant in placement.grants)}, {})


INFO = DialectInfo(
    name=NAME,
    style=DialectStyle("#00aa55", "green3", "▚", "A"),
    result_keys=Acme.result_keys,
    allocation_annotations=frozenset({ALLOCATED}),
    documents=frozenset({("acme-scheduler", "config.yaml")}),
    implementation=f"{__name__}:Acme",
    vendor=NAME,
    uses_node_lock=True,
    runtime_hook=RuntimeHook("acme's hook", ALLOCATED, "stop acme's hook"),
)


@contextmanager
def registered(*infos: DialectInfo) -> Generator[None]:
    """Extend the registry, as a new entry in ``DIALECTS`` would."""
    before = registry.DIALECTS
    registry.DIALECTS = (*before, *infos)
    try:
        yield
    finally:
        registry.DIALECTS = before
