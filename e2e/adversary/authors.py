"""What authors of pods do, honest and hostile; each step returns what was done."""

import http.client
from collections.abc import Callable
from random import Random

from e2e.adversary import claims, scheduling
from e2e.adversary.pods import Mood, random_pod
from e2e.adversary.terms import APP_CLASS, QOS
from e2e.adversary.world import World, refused
from e2e.harness.cluster.api import Object
from e2e.harness.cluster.ready_cluster import PODS

PENDING = 12
"""Pods that wait at most."""

REQUEST_KEYS = {
    QOS: ("best-effort", "fixed-share", "burst-share", None),
    APP_CLASS: ("online", "offline", None),
}
"""Annotations on which other pods of a card depend, with values that an author may try."""


class Authors:
    """The authors of a history."""

    def __init__(
        self, world: World, dice: Random, mood: Mood | None, started: Callable[[], None]
    ) -> None:
        """Prepare; ``begin`` starts.

        Args:
            world: what they act on.
            dice: makes all choices.
            mood: the one at all times; None for another one with each ``begin``.
            started: waits for replicas that are starting.
        """
        self._world = world
        self._dice = dice
        self._fixed = mood
        self._mood = mood or Mood()
        self._started = started

    def begin(self) -> str:
        """Other authors; the pods that wait leave, and at times all."""
        self._mood = self._fixed or Mood.random(self._dice)
        rows = self._world.pods() if self._dice.random() < 0.5 else self._world.pending()
        for pod in rows:
            self._world.end(pod)
            self._world.remove(pod)
        return str(self._mood)

    def create(self) -> str:
        """Pods of any kind."""
        if len(self._world.pending()) >= PENDING:
            return "enough wait"
        return "; ".join(self.add() for _ in range(self._dice.choice((1, 2, 4))))

    def add(self) -> str:
        """One pod."""
        name = self._world.name("p")
        made = random_pod(self._dice, name, self._mood)
        why = refused(lambda: self._world.author.create(PODS, made))
        if why is not None and why.status == http.client.INTERNAL_SERVER_ERROR:
            self._started()  # the replica that the webhook asks was killed
            why = refused(lambda: self._world.author.create(PODS, made))
        return name + (f": {str(why)[:80]}" if why else "")

    def forge_create(self) -> str:
        """A new pod with a result must be rejected."""
        made = random_pod(self._dice, "forged", Mood())
        key = self._dice.choice(claims.RESULT_KEYS)
        made["metadata"]["annotations"] = {key: "GPU-a,NVIDIA,1,0:"}
        if refused(lambda: self._world.author.create(PODS, made)) is None:
            raise AssertionError(f"a pod with {key} was created")
        return key

    def edit_result(self) -> str:
        """An author must not write a result on an existing pod."""
        key = self._dice.choice(claims.RESULT_KEYS)
        text = self._dice.choice(("GPU-a,NVIDIA,1,0:", "[]", None))
        part = self._dice.choice(("", "", "/status"))
        pod = self._world.one_of(self._dice, self._world.pods())
        return "no pod" if pod is None else self._edited(pod, key, text, part)

    def edit_request(self) -> str:
        """An author must not change what others on the card of an existing pod depend on."""
        pod = self._world.one_of(self._dice, self._world.pods())
        return "no pod" if pod is None else self.edit_of(pod)()

    def edit_of(self, pod: Object) -> Callable[[], str]:
        """Choose an edit of one pod now, to be done later."""
        key = self._dice.choice([*REQUEST_KEYS])
        text = self._dice.choice(REQUEST_KEYS[key])
        return lambda: self._edited(pod, key, text)

    def delete(self) -> str:
        """A pod is deleted, at once or with time to end, which no kubelet confirms."""
        grace = self._dice.choice((0, 0, 30))
        pod = self._world.one_of(self._dice, self._world.pods())
        if pod is None:
            return "no pod"
        self._world.remove(pod, grace)
        return f"{pod['metadata']['name']} {grace}"

    def recreate(self) -> str:
        """A pod of the same name with another uid; requests with the old uid must not bind it."""
        pod = self._world.one_of(self._dice, self._world.pods())
        if pod is None:
            return "no pod"
        name = pod["metadata"]["name"]
        self._world.remove(pod)
        made = random_pod(self._dice, name, Mood())
        if refused(lambda: self._world.author.create(PODS, made)) is not None:
            return f"{name} not created"
        node = self._dice.choice([*self._world.places])
        for replica in (0, 1):
            scheduling.fitting(self._world, pod, replica)
            scheduling.plan(self._world, pod, replica, node)
            scheduling.by_extender(self._world, pod, replica, node)
        found = self._world.find(f"{PODS}/{name}")
        if found is not None and "nodeName" in found["spec"]:
            raise AssertionError(f"{name} was bound by the uid of an earlier pod")
        return str(name)

    def _edited(self, pod: Object, key: str, text: str | None, part: str = "") -> str:
        """Change an annotation, which the API server must refuse."""
        name, before = pod["metadata"]["name"], pod["metadata"].get("annotations") or {}
        body = {"metadata": {"annotations": {key: text}}}
        why = refused(lambda: self._world.author.merge(f"{PODS}/{name}{part}", body))
        if why is None and text != before.get(key):
            raise AssertionError(f"the author wrote {key}={text} on {name}")
        return f"{name}{part} {key}={text}: {str(why)[:80]}"
