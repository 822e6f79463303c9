"""A node whose driver prepares claims, for tests: files, a ledger, and an API server's objects."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from adapters.agent.grants import LedgerGrants
from adapters.agent.injection.adjustment import Equipment
from adapters.agent.injection.profiles import HamiCore, VendorProfile
from adapters.dialects.dra import DRA, DRIVER
from adapters.dra_driver.preparation import ClaimRef, Preparer
from adapters.dra_driver.prepared import PreparedClaims
from adapters.dra_driver.tests.cards import card
from adapters.wire.dra import ResourceClaim
from adapters.wire.dra_pod import ClaimingPod
from core.hardware.node import Node
from core.hardware.quantity import GIB
from core.ledger.node_ledger import NodeLedger
from core.requests.grant import Allocation, Grant

POD_UID, NAMESPACE = "pod-uid", "ai"
CARDS = {card(number).uuid: card(number) for number in range(2)}


@dataclass(slots=True)
class Objects:
    """What the API server has."""

    claims: dict[str, ResourceClaim] = field(default_factory=dict[str, ResourceClaim])
    pods: dict[str, ClaimingPod] = field(default_factory=dict[str, ClaimingPod])

    async def claim(self, namespace: str, name: str) -> ResourceClaim:
        if name not in self.claims:
            raise OSError(f"{namespace}/{name} not found")
        return self.claims[name]

    async def pod(self, namespace: str, name: str) -> ClaimingPod:
        if name not in self.pods:
            raise OSError(f"{namespace}/{name} not found")
        return self.pods[name]


@dataclass(slots=True)
class DriverNode:
    """The node.

    Attributes:
        folder: of its files.
    """

    folder: Path
    objects: Objects = field(default_factory=Objects)
    grants: LedgerGrants = field(default_factory=LedgerGrants)

    def __post_init__(self) -> None:
        self.ledger = NodeLedger.of(Node("n1", tuple(CARDS.values())))
        self.grants.replace(self.ledger)
        (self.folder / "libvgpu.so").touch()
        (self.folder / "preload").touch()

    ledger: NodeLedger = field(init=False)

    @property
    def cdi(self) -> Path:
        return self.folder / "cdi"

    def profile(self) -> VendorProfile:
        hami = HamiCore(
            library=str(self.folder / "libvgpu.so"),
            preload_file=str(self.folder / "preload"),
            lock=str(self.folder / "lock"),
            caches=str(self.folder / "containers"),
        )
        return VendorProfile(
            visible_env="NVIDIA_VISIBLE_DEVICES",
            card_devices=("/dev/null",),
            devices=("/dev/zero",),
            hami=hami,
        )

    def preparer(self) -> Preparer:
        equipment = Equipment(CARDS, {"nvidia": self.profile()})
        names = {f"gpu-{each.index}": each.uuid for each in CARDS.values()}
        return Preparer(
            self.objects, self.grants, lambda: equipment, lambda: names, PreparedClaims(self.cdi)
        )

    def add_claim(self, name: str, *grants: Grant, pods: tuple[str, ...] = ("train",)) -> ClaimRef:
        """A claim with a result for each grant: of request r0, r1 and so on."""
        results = [
            {
                "request": f"r{number}",
                "driver": DRIVER,
                "pool": "n1",
                "device": f"gpu-{grant.card[-1]}",
                "shareID": f"share-{number}",
            }
            for number, grant in enumerate(grants)
        ]
        reserved = [{"resource": "pods", "name": pod, "uid": POD_UID} for pod in pods]
        status = {"allocation": {"devices": {"results": results}}, "reservedFor": reserved}
        metadata = {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}"}
        self.objects.claims[name] = msgspec.json.decode(
            msgspec.json.encode({"metadata": metadata, "status": status}), type=ResourceClaim
        )
        return ClaimRef(NAMESPACE, name, f"uid-{name}")

    def commit(self, ref: ClaimRef, *grants: Grant, **more: Any) -> None:
        """Let the ledger have a claim."""
        held = Allocation(ref.uid, f"{ref.namespace}/{ref.name}", DRA, "n1", grants, **more)
        self.ledger = self.ledger.adopt(held)
        self.grants.replace(self.ledger)

    def add_pod(self, **containers: list[dict[str, str]]) -> None:
        """A pod whose containers use claims, each under its own name."""
        names = {use["name"] for each in containers.values() for use in each}
        spec = {
            "containers": [
                {"name": name, "resources": {"claims": each}} for name, each in containers.items()
            ],
            "resourceClaims": [{"name": each, "resourceClaimName": each} for each in names],
        }
        metadata = {"name": "train", "namespace": NAMESPACE, "uid": POD_UID}
        found = msgspec.convert({"metadata": metadata, "spec": spec}, ClaimingPod)
        self.objects.pods["train"] = found


def grant(number: int, gib: int, compute: int = 0) -> Grant:
    return Grant("", f"GPU-{number}", gib * GIB, compute)
