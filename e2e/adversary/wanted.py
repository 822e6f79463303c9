"""What a pod requests, read from the API server's object by rules of the adversary's own.

Only the forms that ``pods`` and ``e2e/harness/workloads/storm.py`` write. Sources: Volcano's vGPU
guide, Koordinator's guide "GPU Share With HAMi", MetaX's manual 7.3, HAMi v2.10's README; the sums
are those of ``docs/reference/dialects``.
"""

from dataclasses import dataclass, replace

from e2e.adversary.terms import ANY_TERMS, APP_CLASS, Terms, metax_terms, volcano_terms
from e2e.harness.cluster.api import Object
from e2e.harness.names import CORE, RATIO

FULL = 100
MODE = "volcano.sh/vgpu-mode"
MEMORY = "koordinator.sh/gpu-memory"
_MIB = {"Gi": 1024, "Mi": 1}


@dataclass(frozen=True, slots=True)
class Part:
    """What one container requests of each of its cards.

    Attributes:
        count: of different cards.
        memory: MiB; None for a percentage.
        percent: of the card's memory; None for MiB.
        compute: percent.
        exclusive: no other pod may have a share of the card.
        turn: as ``Held`` has it.
    """

    count: int
    memory: int | None
    percent: int | None
    compute: int
    exclusive: bool
    turn: str = "main"

    def memory_on(self, total: int) -> int:
        """MiB that are wanted of a card of ``total`` MiB."""
        return total * (self.percent or 0) // FULL if self.memory is None else self.memory


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a pod requests.

    Attributes:
        parts: one for each container, init containers first.
        terms: on which it shares its cards.
        mig: whether only cards in MIG mode suit.
    """

    dialect: str
    parts: tuple[Part, ...]
    terms: Terms = ANY_TERMS
    mig: bool = False

    @property
    def in_turn(self) -> bool:
        """Whether containers run one after the other, so that each must be known in a record."""
        return any(part.turn != "main" for part in self.parts)


def wanted(pod: Object) -> Wanted | None:
    """What a pod requests; None where it requests no share."""
    found = _of_containers(pod)
    if found is None or "initContainers" not in pod["spec"]:
        return found
    turns = [
        "always" if row.get("restartPolicy") == "Always" else "init"
        for row in pod["spec"]["initContainers"]
    ]
    turns += ["main"] * len(pod["spec"]["containers"])
    parts = zip(found.parts, turns, strict=True)
    return replace(found, parts=tuple(replace(part, turn=turn) for part, turn in parts))


def _of_containers(pod: Object) -> Wanted | None:
    """What a pod wants, without the turns of init containers."""
    texts = pod["metadata"].get("annotations") or {}
    rows = [*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]]
    amounts = [row.get("resources", {}).get("limits", {}) for row in rows]
    names = {name for row in amounts for name in row}
    if any(name.startswith("volcano.sh/") for name in names):
        parts = tuple(map(_volcano, amounts))
        return Wanted("volcano", parts, volcano_terms(texts), texts.get(MODE) == "mig")
    if any(name.startswith("koordinator.sh/") for name in names):
        return Wanted("koordinator", tuple(map(_koordinator, amounts)))
    if any(name.startswith("metax-tech.com/") for name in names):
        online = texts.get(APP_CLASS) == "online"
        parts = tuple(_metax(row, online=online) for row in amounts)
        limited = any(part.compute < FULL for part in parts)
        return Wanted("metax", parts, metax_terms(texts, limited=limited))
    if "nvidia.com/gpumem" in names or "nvidia.com/gpumem-percentage" in names:
        return Wanted("hami", tuple(map(_hami, amounts)))
    return None


def _volcano(limits: Object) -> Part:
    compute = int(limits.get("volcano.sh/vgpu-cores", 0))
    memory = _number(limits["volcano.sh/vgpu-memory"])
    return Part(int(limits["volcano.sh/vgpu-number"]), memory, None, compute, compute == FULL)


def _koordinator(limits: Object) -> Part:
    compute = int(limits.get(CORE, 0))
    if RATIO in limits:
        ratio = int(limits[RATIO])
        return Part(1, None, ratio, compute, FULL in (ratio, compute))
    return Part(1, _mebibytes(limits[MEMORY]), None, compute, compute == FULL)


def _metax(limits: Object, *, online: bool) -> Part:
    compute = int(limits.get("metax-tech.com/vcore", FULL))
    memory = _mebibytes(limits["metax-tech.com/vmemory"])
    if online:  # takes the compute of offline tasks
        return Part(1, memory, None, 0, exclusive=False)
    return Part(1, memory, None, compute, compute == FULL)


def _hami(limits: Object) -> Part:
    count, compute = int(limits["nvidia.com/gpu"]), int(limits.get("nvidia.com/gpucores", 0))
    if "nvidia.com/gpumem" in limits:
        memory = _number(limits["nvidia.com/gpumem"])
        return Part(count, memory, None, compute, compute == FULL)
    percent = int(limits["nvidia.com/gpumem-percentage"])
    if percent == FULL and not compute:  # a whole card
        compute = FULL
    return Part(count, None, percent, compute, compute == FULL)


def _number(text: str) -> int:
    """A whole number, as the API server writes it."""
    return int(text[:-1]) * 1000 if text.endswith("k") else int(text)


def _mebibytes(text: str) -> int:
    """A plain number is MetaX's, in GiB."""
    unit = text[-2:]
    return int(text[:-2]) * _MIB[unit] if unit in _MIB else int(text) * 1024
