"""Pods of all four dialects in few sizes, so that each rule of a card is soon at its limit."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Self

from e2e.adversary.terms import APP_CLASS, QOS, STATED
from e2e.adversary.wanted import MEMORY, MODE
from e2e.harness.cluster.api import Object
from e2e.harness.cluster.ready_cluster import pod
from e2e.harness.names import CORE, RATIO

KINDS = ("volcano", *STATED, "mig", "pair", "koordinator", "metax", "class", "hami", "init")
SIZES = (1000, 3000, 6000, 9000)
COMPUTES = (0, 10, 10, 30, 60, 100)


@dataclass(frozen=True, slots=True)
class Mood:
    """What the authors of a while ask for: few kinds and sizes, so that some rule gets tight.

    Groce et al., "Swarm Testing", ISSTA 2012: histories that leave out most kinds of steps find
    more than those that mix all.

    Attributes:
        claims: how much more often than by default something happens to ResourceClaims.
        mirrors: the same of mirrored records.
    """

    kinds: Sequence[str] = KINDS
    sizes: Sequence[int] = SIZES
    computes: Sequence[int] = COMPUTES
    claims: int = 0
    mirrors: int = 1

    @classmethod
    def random(cls, dice: Random) -> Self:
        """One to three of each."""
        return cls(
            dice.sample(KINDS, dice.choice((1, 2, 3))),
            dice.sample(SIZES, dice.choice((1, 2))),
            dice.sample(COMPUTES, dice.choice((1, 2))),
        )


def random_pod(dice: Random, name: str, mood: Mood) -> Object:
    """A valid pod that no scheduler of the test takes."""
    kind = dice.choice(mood.kinds)
    amounts, texts = _request(dice, kind, dice.choice(mood.sizes), dice.choice(mood.computes))
    made = pod(name, "no-scheduler", amounts)
    if kind == "pair":
        second = made["spec"]["containers"][0] | {"name": "second"}
        made["spec"]["containers"].append(second)
    if kind == "init":
        made["spec"]["initContainers"] = _before(dice, made["spec"]["containers"][0])
    made["metadata"]["annotations"] = texts
    return made


def _before(dice: Random, main: Object) -> list[Object]:
    """An init container with the share of the main one or a larger one, a sidecar, or both."""
    (memory,) = (key for key in _limits(main) if key.endswith(("mem", "memory")))
    limits = {**_limits(main), memory: str(int(_limits(main)[memory]) * dice.choice((1, 1, 2)))}
    init = {**main, "name": "init", "resources": {"limits": limits}}
    sidecar = {**main, "name": "sidecar", "restartPolicy": "Always"}
    return dice.choice(([init], [sidecar], [sidecar, init]))


def _limits(container: Object) -> dict[str, str]:
    found: dict[str, str] = container["resources"]["limits"]
    return found


def _request(
    dice: Random, kind: str, memory: int, compute: int
) -> tuple[dict[str, str], dict[str, str]]:
    """Limits and annotations."""
    match kind:
        case _ if kind in STATED:
            texts = STATED[kind](dice)
            return _volcano(dice.choice((1, 2)), 1000, 0), texts
        case "mig":
            size = dice.choice((5000, 9000, 15000, 30000))
            return _volcano(1, size, 0), {MODE: "mig"}
        case "pair":
            return _volcano(1, memory // 2, compute // 2), {MODE: "hami-core"}
        case "init":
            half = memory // 2, compute // 2
            return (
                (_volcano(1, *half), {MODE: "hami-core"})
                if dice.random() < 0.5
                else (_hami(1, {"nvidia.com/gpumem": str(half[0])}, half[1]), {})
            )
        case "hami":
            amount = {"nvidia.com/gpumem-percentage": dice.choice(("5", "25", "50", "100"))}
            if dice.random() < 0.5:
                amount = {"nvidia.com/gpumem": str(memory)}
            return _hami(dice.choice((1, 1, 2)), amount, compute), {}
        case "koordinator":
            amount = {RATIO: dice.choice(("5", "25", "50", "100"))}
            if dice.random() < 0.5:
                amount = {MEMORY: f"{memory}Mi"}
            return amount | ({CORE: str(compute)} if compute else {}), {}
        case "metax":
            policy = dice.choice(("best-effort", "fixed-share", "burst-share"))
            return _metax(memory, compute or 15), {QOS: policy} if dice.random() < 0.8 else {}
        case "class":
            return _metax(memory, compute or 15), {APP_CLASS: dice.choice(("online", "offline"))}
        case _:
            return _volcano(dice.choice((1, 1, 2)), memory, compute), {MODE: "hami-core"}


def _volcano(count: int, memory: int, compute: int) -> dict[str, str]:
    amounts = {"volcano.sh/vgpu-number": str(count), "volcano.sh/vgpu-memory": str(memory)}
    return amounts | ({"volcano.sh/vgpu-cores": str(compute)} if compute else {})


def _hami(count: int, amount: dict[str, str], compute: int) -> dict[str, str]:
    cores = {"nvidia.com/gpucores": str(compute)} if compute else {}
    return {"nvidia.com/gpu": str(count)} | amount | cores


def _metax(memory: int, compute: int) -> dict[str, str]:
    return {
        "metax-tech.com/sgpu": "1",
        "metax-tech.com/vmemory": f"{memory}Mi",
        "metax-tech.com/vcore": str(compute),
    }
