"""Why Bindings were rejected, by changes at known times."""

from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest

from e2e.adversary import rejected
from e2e.adversary.cards import Card, Place
from e2e.adversary.rejected import Cause, History
from e2e.harness.cluster.api import Object
from e2e.harness.cluster.ready_cluster import pod

CARD = "GPU-0"
PLACE = Place("n", "shared", (Card(CARD, 8000, frozenset(("volcano",)), minor=0),))
CHOICE = {"volcano.sh/vgpu-ids-new": f"{CARD},NVIDIA,6000,0:"}


@dataclass
class Changes:
    """A history whose changes happen at the times that a test gives.

    Attributes:
        history: of one node with one card.
        now: seconds.
        rows: what the service logged.
    """

    history: History = field(default_factory=lambda: History([PLACE]))
    now: float = 0.0
    rows: list[Object] = field(default_factory=list[Object])

    def pod(self, now: float, name: str, what: str = "MODIFIED", *, node: str = "") -> None:
        """A pod is reported; it has chosen the card, or is bound."""
        self.now = now
        limits = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "6000"}
        made = pod(name, "volcano", limits)
        made["metadata"] |= {"uid": name, "annotations": CHOICE}
        if node:
            made["spec"]["nodeName"] = node
        self.history.see(what, made)

    def ledger(self, now: float, *uids: str) -> None:
        """The ledger is reported with these pods."""
        self.now = now
        grants = [{"card": CARD, "memory": 6000 << 20, "compute": 0}]
        rows = [{"uid": uid, "grants": grants} for uid in uids]
        self.history.see_ledger(
            "MODIFIED", {"metadata": {"name": "n"}, "spec": {"allocations": rows}}
        )

    def binding(self, when: float, name: str, event: str = "binding.refused") -> None:
        """The service decides about a Binding."""
        self.rows.append(
            {
                "timestamp": datetime.fromtimestamp(when, UTC).isoformat(),
                "event": event,
                "dialect": "volcano",
                "node": "n",
                "uid": name,
                "pod": f"default/{name}",
            }
        )

    def causes(self) -> list[Cause]:
        """Why each was rejected."""
        return [each.cause for each in self.history.explain(self.rows)]


@pytest.fixture
def changes(monkeypatch: pytest.MonkeyPatch) -> Changes:
    made = Changes()
    monkeypatch.setattr(rejected, "time", lambda: made.now)
    made.ledger(1)
    return made


def test_a_pod_that_got_the_room_meanwhile_won_a_race(changes: Changes) -> None:
    changes.pod(10, "late")
    changes.ledger(10.1, "first")
    changes.pod(10.2, "first", node="n")
    changes.binding(10.4, "late")

    assert changes.causes() == [Cause.RACE]


def test_a_choice_that_was_rejected_before_or_made_long_after_is_no_race(changes: Changes) -> None:
    changes.ledger(10.1, "first")
    changes.pod(10.2, "first", node="n")
    changes.pod(14, "late")
    changes.binding(14.4, "late")
    changes.binding(15.4, "late")

    assert changes.causes() == [Cause.UNSEEN, Cause.AGAIN]


def test_a_ledger_that_still_has_a_pod_that_is_gone_is_late(changes: Changes) -> None:
    changes.ledger(10.1, "first")
    changes.pod(10.2, "first", node="n")
    changes.pod(14, "first", "DELETED", node="n")
    changes.pod(14.1, "late")
    changes.binding(15, "late")
    changes.ledger(15.1)
    changes.binding(16, "late")
    changes.binding(17, "late", "binding.adopted")

    assert changes.causes() == [Cause.RELEASE, Cause.NONE]
