"""What writers that the policy trusts do to mirrored records; each step returns what was done.

They write on pods as a scheduler does, but never what the pod's own dialect reads as its record.
"""

import http.client
import json
from collections.abc import Callable, Mapping, Sequence
from random import Random

from e2e.adversary import claims, scheduling
from e2e.adversary.agreement import differences
from e2e.adversary.cards import Card
from e2e.adversary.emitted import RECORDS
from e2e.adversary.mirrored import MARKS, TARGETS
from e2e.adversary.wanted import wanted
from e2e.adversary.world import World, refused
from e2e.harness.cluster.api import Object
from e2e.harness.cluster.ready_cluster import PODS, pod
from e2e.harness.names import CORE, RATIO


class Mirrors:
    """The forgers of a history."""

    def __init__(self, world: World, dice: Random) -> None:
        """Prepare, and write nothing yet."""
        self._world = world
        self._dice = dice

    def forge_mirror(self) -> str:
        """A mirror or its mark is edited, deleted or made on a pod, mostly on one that runs."""
        pods = self._world.pods()
        bound = [pod for pod in pods if "nodeName" in pod["spec"]]
        chosen = bound if self._dice.random() < 0.8 else pods
        pod = self._world.one_of(self._dice, chosen)
        return "no pod" if pod is None else self.forging(pod)()

    def forging(self, pod: Object) -> Callable[[], str]:
        """Choose what is written on one pod now, to be done later."""
        name, texts = pod["metadata"]["name"], self._forged(pod)

        def act() -> str:
            body = {"metadata": {"annotations": texts}}
            why = refused(lambda: self._world.scheduler.merge(f"{PODS}/{name}/status", body))
            if why is not None and why.status != http.client.NOT_FOUND:
                raise AssertionError(f"a scheduler could not write {texts} on {name}: {why}")
            return f"mirror of {name} {texts}: {'gone' if why else 'written'}"

        return act

    def brought(self, pod: Object) -> dict[str, str]:
        """What a Binding of a pod brings beside its choice of cards."""
        return {key: text for key, text in self._forged(pod).items() if text is not None}

    def _forged(self, pod: Object) -> dict[str, str | None]:
        asked, target = wanted(pod), self._dice.choice(TARGETS)
        texts: dict[str, str | None] = {}
        if asked is None or asked.dialect != target:
            texts[RECORDS[target]] = self._record(target)
        if not texts or self._dice.random() < 0.8:
            texts[MARKS[target]] = self._dice.choice(("true", "true", "false", None))
        return texts

    def _record(self, target: str) -> str | None:
        """A text: of another pod, of any amounts of any cards, garbage, or None to delete it."""
        key = RECORDS[target]
        others = [_annotations(pod) for pod in self._world.pods()]
        copied = [texts[key] for texts in others if key in texts]
        match self._dice.randrange(4):
            case 0:
                return None
            case 1 if copied:
                return self._dice.choice(copied)
            case 2:
                return self._dice.choice(("", "[]", "?", '{"gpu":[null]}', "GPU-a", ";;"))
            case _:
                place = self._dice.choice([*self._world.places.values()])
                memory = self._dice.choice((1, 500, 70000))
                return stated(target, [self._dice.choice(place.cards)], memory)


def bind_past_forged(world: World) -> list[str]:
    """Bind a pod past the service, with its record and a forged mirror of less of another card.

    Args:
        world: new.

    Returns:
        where the ledger differs from the pod's own record.
    """
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "9000"}
    bound = world.api.create(PODS, pod(world.name("p"), "no-scheduler", limits))
    asked, cards = wanted(bound), world.places["n0"].cards
    assert asked is not None  # noqa: S101 - for mypy
    forged = {RECORDS["volcano"]: stated("volcano", cards[1:], 1), MARKS["volcano"]: "true"}
    texts = claims.exact(asked, cards[:1]) | forged
    scheduling.past_the_service(world, bound, "n0", texts)
    world.caught_up()
    return differences(world)


def stated(target: str, cards: Sequence[Card], memory: int) -> str:
    """The record of a peer that says that a pod has MiB of each of some cards."""
    if target == "volcano":
        return "".join(f"{card.uuid},NVIDIA,{memory},0:" for card in cards)
    amounts = {CORE: "1", "koordinator.sh/gpu-memory": f"{memory}Mi", RATIO: "1"}
    rows = [{"minor": card.minor or 0, "id": card.uuid, "resources": amounts} for card in cards]
    return json.dumps({"gpu": rows})


def _annotations(pod: Object) -> Mapping[str, str]:
    found: Mapping[str, str] = pod["metadata"].get("annotations") or {}
    return found
