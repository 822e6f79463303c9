from dataclasses import dataclass, field

from adapters.agent.grants import LedgerGrants
from adapters.agent.hardware.model import Hardware, Instance
from adapters.agent.injection.adjustment import EquipmentSource
from adapters.agent.injection.profiles import PROFILES
from adapters.agent.nri.model import RuntimeInfo
from adapters.agent.tests.builders import card, ledger
from core.hardware.mig import MigKey

KEY = MigKey("GPU-0", "1g.10gb", 2)


@dataclass
class Setup:
    grants: LedgerGrants = field(default_factory=lambda: LedgerGrants(ledger()))
    hardware: Hardware = field(default_factory=Hardware)
    source: EquipmentSource = field(init=False)

    def __post_init__(self) -> None:
        self.source = EquipmentSource(self.grants, PROFILES, lambda: self.hardware)


def test_the_equipment_is_built_once_until_a_source_changes() -> None:
    there = Setup(hardware=Hardware((card(0),)))
    first = there.source.equipment()

    there.grants.replace(ledger(uid="uid-2"))
    same = there.source.equipment()
    there.hardware = Hardware((card(0), card(1)), instances={KEY: Instance("MIG-1")})
    more = there.source.equipment()
    there.source.configure(RuntimeInfo("containerd", "2.1.0"))
    cdi = there.source.equipment()

    assert same is first
    assert list(more.cards) == ["GPU-0", "GPU-1"]
    assert more.instances == {KEY: Instance("MIG-1")}
    assert (more.cdi, cdi.cdi) == (False, True)
    assert there.source.equipment() is cdi


def test_the_ledgers_cards_count_where_the_hardware_is_not_known() -> None:
    there = Setup()
    first = there.source.equipment()

    there.grants.replace(ledger(uid="uid-2"))
    second = there.source.equipment()

    assert set(first.cards) == set(second.cards) == {"GPU-0", "GPU-1", "GPU-2", "GPU-3"}
    assert second.cards is there.grants.cards()
