"""One pod against all nodes of a cluster, by the engine that the service uses."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from adapters.cli.fleet.device_plugins import DeviceFit, PluginDevices
from adapters.cli.fleet.fleet import Fleet
from adapters.cli.fleet.quotas import NamespaceQuotas
from adapters.cli.input.candidates import CandidateChoice, Candidates
from adapters.dialects.containers import resource_names
from adapters.dialects.device_plugins.plain_pods import amounts_of
from adapters.dialects.dialect import Dialect, DialectError
from adapters.dialects.matching import dialect_of
from adapters.dialects.unread_keys import uncounted
from adapters.wire.kube import Pod
from core.requests.decision import Decision
from core.requests.reason import Reason
from core.requests.request import Request


@dataclass(frozen=True, slots=True)
class Verdict:
    """One pod.

    Attributes:
        dialect: name; None where it requests no share, or uses several dialects.
        problem: why the request is invalid; None where it is valid.
        request: None where there is none, or an invalid one.
        decision: None without a request, or without a node with cards for it.
        candidates: the nodes that it may run on; of a pod with ``devices`` those with cards.
        fitting: nodes that fit.
        devices: where the devices of a plugin that it requests are free; None where it requests
            none, or the ledgers choose its cards on every node.
        uncounted: resources of accelerators that it requests and Dragoman does not count.
    """

    dialect: str | None
    problem: str | None = None
    request: Request | None = None
    decision: Decision | None = None
    candidates: CandidateChoice | None = None
    fitting: tuple[str, ...] = ()
    devices: DeviceFit | None = None
    uncounted: tuple[str, ...] = ()

    @property
    def requests(self) -> bool:
        """Whether it requests a share or devices, valid or not."""
        return self.problem is not None or self.request is not None

    @property
    def reasons(self) -> Mapping[str, Reason]:
        """Why a candidate node with cards does not fit, by node."""
        return {} if self.decision is None else self.decision.reasons

    def summary(self) -> str:
        """The verdict in a sentence."""
        if self.problem is not None:
            return self.problem
        if self.candidates is None:
            return uncounted_text(self.uncounted) if self.uncounted else "requests no share"
        if self.fitting:
            count = len(self.fitting)
            nodes = "1 node" if count == 1 else f"{count} nodes"
            return f"fits {nodes}, best {self.best}"
        of_cards = "" if self.decision is None else self.decision.summary()
        of_devices = "" if self.devices is None else self.devices.summary
        causes = (of_devices, of_cards, self.candidates.summary())
        return "; ".join(filter(None, causes)) or "no node to choose from"

    @property
    def best(self) -> str | None:
        """The node that it would go to: one that has its devices, else the best by its cards."""
        if self.devices is not None and self.devices.fitting:
            return self.devices.fitting[0]
        placement = None if self.decision is None else self.decision.placement
        return None if placement is None else placement.node


def requests_cards(pod: Pod, dialects: Sequence[Dialect]) -> bool:
    """Whether a pod requests a share or devices, valid or not."""
    try:
        return dialect_of(pod, dialects) is not None
    except DialectError:
        return True


def uncounted_text(names: Sequence[str]) -> str:
    """Say that a pod requests resources that no dialect knows."""
    return f"requests {', '.join(names)}, which Dragoman does not count"


class Judge:
    """Compares pods with one cluster; nothing is placed."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._inventory = fleet.inventory()
        self._quotas = NamespaceQuotas(fleet)
        self._candidates = Candidates([state.kube for state in fleet.nodes.values()])
        self.devices = PluginDevices(fleet)

    def verdict(self, pod: Pod) -> Verdict:
        """Where a pod fits, and why it does not fit the other nodes."""
        dialect = None
        try:
            dialect = dialect_of(pod, self._fleet.dialects)
            if dialect is None:
                return Verdict(None, uncounted=uncounted(resource_names(pod), self._fleet.dialects))
            request = dialect.read_request(pod)
            amounts = amounts_of(pod, request)
        except DialectError as error:
            return Verdict(None if dialect is None else dialect.name, str(error))
        return self.judge(request, amounts, self._candidates.of(pod))

    def judge(
        self, request: Request, amounts: Mapping[str, int], candidates: CandidateChoice
    ) -> Verdict:
        """Where a request fits among some nodes.

        Args:
            request: of the pod.
            amounts: of devices, by resource, where device plugins serve the request.
            candidates: the nodes.
        """
        devices = self.devices.fit(request, amounts, candidates.names)
        if devices is not None:
            candidates = self.devices.with_cards(candidates, devices)
        free = () if devices is None else devices.fitting
        if devices is not None and not candidates.names:
            return Verdict(request.dialect, None, request, None, candidates, free, devices)
        evaluation = self._quotas.evaluate(request, self._inventory)
        decision = evaluation.decide(candidates.selection, explain=True)
        fitting = (n for n in candidates.names if n not in decision.reasons)
        fits = (*free, *fitting)
        return Verdict(request.dialect, None, request, decision, candidates, fits, devices)
