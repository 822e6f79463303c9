"""Objects of Dynamic Resource Allocation, with only the fields that are read.

Source: k8s.io/api v0.37.1 resource/v1/types.go. The status of a claim is decoded apart, so that a
claim whose status has another form than this one is still known by name.
"""

from typing import Any

import msgspec

from adapters.wire.decode.decoder import Int64
from adapters.wire.kube import Amount, Metadata, RequiredNodeSelector, Wire


class Attribute(Wire, frozen=True, gc=False):
    """An attribute of a device; one of the fields is set."""

    string: str | None = None
    int_: Int64 | None = msgspec.field(default=None, name="int")


class Capacity(Wire, frozen=True, gc=False):
    """A capacity of a device, or a counter."""

    value: Amount = 0


class DeviceCapacity(Capacity, frozen=True, gc=False):
    """A capacity of a device that several claims share; its policy rounds what a claim requests."""

    request_policy: dict[str, Any] | None = None


class CounterConsumption(Wire, frozen=True, gc=False):
    """What a device takes of a counter set of its pool."""

    counter_set: str = ""
    counters: dict[str, Capacity] | None = None


class BasicDevice(Wire, frozen=True, gc=False):
    """What a device is; in v1beta1 it stands under ``basic``."""

    attributes: dict[str, Attribute] | None = None
    capacity: dict[str, DeviceCapacity] | None = None
    consumes_counters: tuple[CounterConsumption, ...] | None = None
    node_name: str | None = None
    allow_multiple_allocations: bool | None = None
    taints: tuple[dict[str, Any], ...] | None = None
    binding_conditions: tuple[str, ...] | None = None
    binding_failure_conditions: tuple[str, ...] | None = None


class SliceDevice(BasicDevice, frozen=True, gc=False):
    """One device of a slice."""

    name: str = ""
    basic: BasicDevice | None = None


class CelSelector(Wire, frozen=True, gc=False):
    """An expression of the Common Expression Language about a device."""

    expression: str = ""


class DeviceSelector(Wire, frozen=True, gc=False):
    """A selector of a class or of a request; all selectors of one hold together."""

    cel: CelSelector | None = None


class DeviceClassSpec(Wire, frozen=True, gc=False):
    """The spec of a DeviceClass."""

    selectors: tuple[DeviceSelector, ...] | None = None
    extended_resource_name: str | None = None


class DeviceClass(Wire, frozen=True, gc=False):
    """A kind of device that claims name."""

    metadata: Metadata = Metadata()
    spec: DeviceClassSpec = DeviceClassSpec()


class TaintSelector(Wire, frozen=True, gc=False):
    """The devices that a rule taints: those that agree in each field that is set."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class TaintRuleSpec(Wire, frozen=True, gc=False):
    """The spec of a taint rule; without a selector it taints no device."""

    device_selector: TaintSelector | None = None
    taint: dict[str, Any] = msgspec.field(default_factory=dict)


class DeviceTaintRule(Wire, frozen=True, gc=False):
    """A taint that an administrator puts on devices of others; slices do not show it."""

    metadata: Metadata = Metadata()
    spec: TaintRuleSpec = TaintRuleSpec()

    def selects(self, driver: str, pool: str, device: str) -> bool:
        """Return whether a device has the taint."""
        selector = self.spec.device_selector
        return selector is not None and (
            selector.driver in (None, driver)
            and selector.pool in (None, pool)
            and selector.device in (None, device)
        )


class PolicyRange(Wire, frozen=True, gc=False):
    """The range of amounts of a capacity that a claim can have."""

    min: Amount | None = None
    max: Amount | None = None
    step: Amount | None = None


class RequestPolicy(Wire, frozen=True, gc=False):
    """Which amounts of a capacity a claim can have, and how much one has that states none."""

    default: Amount | None = None
    valid_range: PolicyRange | None = None
    valid_values: tuple[Amount, ...] | None = None


class CapacityRequirements(Wire, frozen=True, gc=False):
    """The part of a device that a request wants, by capacity."""

    requests: dict[str, Amount] | None = None


class ExactRequest(Wire, frozen=True, gc=False):
    """Devices of one class; ``count`` 1 where it is not stated."""

    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] | None = None
    allocation_mode: str | None = None
    count: Int64 | None = None
    capacity: CapacityRequirements | None = None
    admin_access: bool | None = None
    tolerations: tuple[dict[str, Any], ...] | None = None


class Alternative(ExactRequest, frozen=True, gc=False):
    """One of several requests of which the first that fits counts."""

    name: str = ""


class ClaimRequest(Wire, frozen=True, gc=False):
    """A request of a claim; without ``exactly`` it has alternatives."""

    name: str = ""
    exactly: ExactRequest | None = None
    first_available: tuple[Alternative, ...] | None = None


class ClaimDevices(Wire, frozen=True, gc=False):
    """What a claim requests; the parameters of drivers are only counted."""

    requests: tuple[ClaimRequest, ...] | None = None
    constraints: tuple[dict[str, Any], ...] | None = None
    config: tuple[dict[str, Any], ...] | None = None


class ClaimSpec(Wire, frozen=True, gc=False):
    """The spec of a claim."""

    devices: ClaimDevices = ClaimDevices()


class Pool(Wire, frozen=True, gc=False):
    """The pool of a slice; a newer generation replaces all slices of an older one."""

    name: str = ""
    generation: Int64 = 0


class SliceSpec(Wire, frozen=True, gc=False):
    """The spec of a ResourceSlice."""

    driver: str = ""
    pool: Pool = Pool()
    node_name: str | None = None
    devices: tuple[SliceDevice, ...] | None = None


class ResourceSlice(Wire, frozen=True, gc=False):
    """Some devices of one driver."""

    metadata: Metadata = Metadata()
    spec: SliceSpec = SliceSpec()


class DeviceResult(Wire, frozen=True, gc=False):
    """One allocated device; without ``share_id`` it is the whole device."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    share_id: str | None = msgspec.field(default=None, name="shareID")
    consumed_capacity: dict[str, Amount] | None = None
    binding_conditions: tuple[str, ...] | None = None


class DeviceAllocation(Wire, frozen=True, gc=False):
    """All devices of a claim."""

    results: tuple[DeviceResult, ...] | None = None


class ClaimAllocation(Wire, frozen=True, gc=False):
    """The allocation of a claim; without a node selector all nodes can use the devices."""

    devices: DeviceAllocation = DeviceAllocation()
    node_selector: RequiredNodeSelector | None = None
    allocation_timestamp: str | None = None


class ConsumerReference(Wire, frozen=True, gc=False):
    """Who may use a claim; a pod where ``resource`` is ``pods``."""

    resource: str = ""
    name: str = ""
    uid: str = ""


class ClaimStatus(Wire, frozen=True, gc=False):
    """The status of a claim; without an allocation it has no device."""

    allocation: ClaimAllocation | None = None
    reserved_for: tuple[ConsumerReference, ...] | None = None


class ResourceClaim(Wire, frozen=True, gc=False):
    """A claim of devices."""

    metadata: Metadata = Metadata()
    status: msgspec.Raw = msgspec.Raw(b"")


class ListedClaim(ResourceClaim, frozen=True, gc=False):
    """A claim whose spec is decoded when it is needed: what a claim has does not depend on it."""

    spec: msgspec.Raw = msgspec.Raw(b"")


class RequestedClaim(ResourceClaim, frozen=True, gc=False):
    """A claim with what it requests, as the API server is about to write it."""

    spec: ClaimSpec = ClaimSpec()


class ClaimManifest(Wire, frozen=True, gc=False):
    """A claim in a file, whose status is not decoded yet."""

    metadata: Metadata = Metadata()
    status: dict[str, Any] | None = None
    spec: dict[str, Any] | None = None

    def claim(self) -> ListedClaim:
        """Return the claim as the API server sends it."""
        status = b"" if self.status is None else msgspec.json.encode(self.status)
        spec = msgspec.Raw(msgspec.json.encode(self.spec or {}))
        return ListedClaim(self.metadata, msgspec.Raw(status), spec)


class ClaimTemplate(Wire, frozen=True, gc=False):
    """What claims are made of, one for each pod."""

    metadata: Metadata = Metadata()
    spec: dict[str, Any] | None = None
