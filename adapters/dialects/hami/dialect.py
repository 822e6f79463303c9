"""HAMi's dialect on NVIDIA cards; its records, our own and those of HAMi's scheduler."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from adapters.dialects import dialect
from adapters.dialects.containers import pod_containers, requests_any, resource_names, stated_amount
from adapters.dialects.formats import hami_record, hami_result
from adapters.dialects.formats.annotation_values import annotation_path
from adapters.dialects.hami import keys
from adapters.dialects.hami import node as nodes
from adapters.dialects.hami import pod as pods
from adapters.wire.kube import DeviceObject, KubeNode, Pod, annotations
from adapters.wire.kube_policy import LIMITS_PREFIX
from core.hardware.card import Card, Mode
from core.hardware.node import Node
from core.hardware.quantity import FULL, MIB
from core.requests.grant import Grant, Placement
from core.requests.request import Request

_FIELD = annotation_path(hami_record.NVIDIA_ALLOCATED)


@dataclass(frozen=True, slots=True)
class Hami(dialect.Dialect):
    """The dialect with its settings.

    Attributes:
        amounts: the resources of the configuration that only HAMi has.
    """

    name = keys.NAME
    result_keys = keys.RESULT_KEYS
    frees_init_shares = True

    config: keys.HamiConfig
    defaults: dialect.Defaults
    amounts: frozenset[str]

    @classmethod
    def configured(cls, settings: dialect.Documents, defaults: dialect.Defaults) -> Self:
        """Create the dialect with the settings files; see ``Dialect``."""
        config = keys.read_config(settings)
        return cls(config, defaults, frozenset(config.amounts))

    @property
    def shared_resources(self) -> frozenset[str]:
        """The number of cards; without an amount it means whole cards of other dialects."""
        return frozenset({self.config.count})

    @property
    def quota_units(self) -> Mapping[str, dialect.QuotaUnit | None]:
        """Memory and compute; HAMi's scheduler does not count the number of cards.

        Source: HAMi v2.10 pkg/device/quota.go, ``IsManagedQuota`` and ``FitQuota``, which takes a
        limit of memory times ``memoryFactor``.
        """
        return {
            f"{LIMITS_PREFIX}{self.config.memory}": dialect.QuotaUnit(
                "memory", self.config.unit * MIB
            ),
            f"{LIMITS_PREFIX}{self.config.cores}": dialect.QuotaUnit("compute", 1),
            f"{LIMITS_PREFIX}{self.config.count}": None,
        }

    def matches(self, pod: Pod) -> bool:
        """Return whether a pod means HAMi.

        It does if it names a resource that only HAMi has. ``nvidia.com/gpu`` alone is a whole card
        in several dialects: it means HAMi beside an annotation that only HAMi reads, or where
        HAMi's settings give such a container a default memory.
        """
        named = resource_names(pod)
        if not self.amounts.isdisjoint(named):
            return True
        if self.config.count not in named or not any(
            found is not None and str(found[1]).strip() != "0"
            for found in (
                stated_amount(member, self.config.count) for member in pod_containers(pod)
            )
        ):
            return False
        if self.config.count != keys.COUNT or self.config.default_memory:
            return True
        return not annotations(pod).keys().isdisjoint(keys.POD_ANNOTATIONS)

    def read_request(self, pod: Pod) -> Request:
        """Read what a pod that ``matches`` requests; see ``Dialect``."""
        return pods.read_request(pod, self.config, self.defaults)

    def admission_defaults(self, pod: Pod, request: Request) -> dialect.AdmissionDefaults:
        """Return the number of cards and the priority; see ``pod.admission_defaults``.

        Raises:
            DialectError: the pod requests a share and has a privileged container.
        """
        return pods.admission_defaults(pod, self.config)

    def read_node(self, node: KubeNode, device: DeviceObject | None) -> dialect.NodeDescription:
        """Read the cards of a node, only from the node object."""
        return nodes.read_node(node, self.config)

    def resources(self, cards: Sequence[Card]) -> Mapping[str, int]:
        """Return the number of sharers, as HAMi's device plugin registers, and sums.

        The plugin registers no sums, because HAMi's scheduler needs none. vc-scheduler rejects pods
        whose amounts are more than their sum. A container counts in a sum once, whatever its number
        of cards, so no sum keeps a pod out that a card has room for. HAMi rounds the percentages of
        slices up.
        """
        own = [card for card in cards if keys.NAME in card.dialects]
        if not own:
            return {}
        healthy = [card for card in own if card.healthy]
        slots = sum(card.slots for card in healthy)
        sliced = (
            [sum(part.compute for part in layout.slices) for layout in card.geometry.layouts]
            for card in healthy
        )
        return {
            self.config.count: slots,
            self.config.memory: sum(card.memory for card in healthy) // (self.config.unit * MIB),
            self.config.percent: FULL * len(healthy),
            self.config.cores: sum(
                max((card.compute, *layouts)) for card, layouts in zip(healthy, sliced, strict=True)
            ),
            self.config.priority: pods.LOWEST_PRIORITY * slots,
        }

    def needs_node_lock(self, request: Request, node: KubeNode) -> bool:
        """Return where HAMi's device plugin describes the node: it finds its pod by the lock."""
        return hami_record.serves_node(node)

    def has_result(self, pod: Pod) -> bool:
        """Return whether the pod has a record of an allocation."""
        return hami_record.NVIDIA_ALLOCATED in annotations(pod)

    def read_result(self, pod: Pod, request: Request, node: Node) -> tuple[Grant, ...]:
        """Read the grants of a pod, in start order of its containers.

        Raises:
            DialectError: the record is for another node, or contradicts itself, the pod or the
                node.
            UnclearRecord: it names slices that are not known.
        """
        texts = annotations(pod)
        hami_record.check_node(texts, node)
        text = texts[hami_record.NVIDIA_ALLOCATED]
        lists = hami_record.decode_devices(
            hami_record.NVIDIA_KIND, _FIELD, text, several_slices=True
        )
        members = [member.container.name for member in pod_containers(pod)]
        if len(lists) != len(members):
            problem = f"covers {len(lists)} containers, the pod has {len(members)}"
            raise dialect.DialectError(_FIELD, text, problem)
        places = hami_result.read_mig_allocations(texts)
        cards = {card.uuid: card for card in node.cards}
        requests = {each.name: each for each in request.containers}
        grants: list[Grant] = []
        for index, (name, shares) in enumerate(zip(members, lists, strict=True)):
            wanted = requests.get(name)
            count = 0 if wanted is None else wanted.count
            if len(shares) != count:
                problem = f"has {len(shares)} cards for {name}, which requests {count}"
                raise dialect.DialectError(_FIELD, text, problem)
            if wanted is None:
                continue
            for position, share in enumerate(shares):
                card = cards.get(share.card)
                part = None
                if card is not None and card.mode is Mode.MIG:
                    part = places.slice(index, position, card)
                grants.append(
                    Grant(
                        name,
                        share.card,
                        (part or share).memory,
                        (part or share).compute,
                        wanted.exclusive if card is None else wanted.exclusive_on(card),
                        wanted.phase,
                        part,
                    )
                )
        if len({(grant.container, grant.card, grant.slice) for grant in grants}) < len(grants):
            raise dialect.DialectError(
                _FIELD, text, "names a card or a slice twice for one container"
            )
        hami_result.check_slices(texts, (grant.card for grant in grants), node)
        return tuple(grants)

    def read_adopted(self, pod: Pod, node: Node) -> dialect.AdoptedAllocation | None:
        """Read what HAMi's scheduler allocated to a pod; see ``Dialect``.

        It allocates no card for a number of 0, and none for amounts without a number.

        Raises:
            DialectError: the record is for another node, or cannot be parsed.
        """
        count = (self.config.count,)
        requesting = [member for member in pod_containers(pod) if requests_any(member, count)]
        grants = hami_result.read_hami(pod, node, requesting)
        if grants:
            return dialect.AdoptedAllocation(grants)
        return None if requesting else dialect.NO_ALLOCATION

    def write_result(
        self, pod: Pod, request: Request, placement: Placement, node: Node, now: int
    ) -> dialect.Result:
        """Write the record of a placement."""
        return hami_result.write_nvidia(pod, placement, now)
