"""Waiting pods with ResourceClaims: every command says where devices are free, and why not."""

import json

import pytest

from adapters.cli.tests.builders import (
    AT,
    Plain,
    a_claim,
    a_slice,
    node,
    pod,
    report,
    run,
    stream,
    uuid,
    volcano,
    volcano_bound,
)
from adapters.cli.tests.command import command

DRIVER = 'device.driver == "gpu.nvidia.com"'


def a_class(*expressions: str, **spec: object) -> Plain:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "gpu"},
        "spec": {"selectors": [{"cel": {"expression": each}} for each in expressions], **spec},
    }


def a_request(**exactly: object) -> Plain:
    return {"name": "r", "exactly": {"deviceClassName": "gpu", **exactly}}


def unallocated(*requests: Plain, name: str = "w", **devices: object) -> Plain:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name},
        "spec": {"devices": {"requests": requests or (a_request(),), **devices}},
    }


def waiting(name: str = "p", claim: str = "w", **status: object) -> Plain:
    spec = {"resourceClaims": [{"name": "c", "resourceClaimName": claim}]}
    return pod(name, spec=spec, status=status)


def shared(policy: Plain | None = None) -> Plain:
    """One device of 10,000 MiB that several claims can have."""
    published = a_slice(uuid(0))
    (device,) = published["spec"]["devices"]
    device["allowMultipleAllocations"] = True
    if policy is not None:
        device["capacity"]["memory"]["requestPolicy"] = policy
    return published


def memory(amount: str) -> Plain:
    return a_request(capacity={"requests": {"memory": amount}})


def summary(*things: Plain, name: str = "p") -> str:
    """The answer of explain; pending says the same."""
    explained = command("explain", "pod", name, "-o", "json", things=things)
    found = json.loads(explained.stdout)
    listed = json.loads(command("pending", "-o", "json", things=things).stdout)
    (row,) = (each for each in listed["items"] if each["pod"] == name)
    assert row["reason"] == found["summary"]
    assert row["request"] != "invalid"
    assert explained.exit_code == (found["best"] is None)
    text: str = found["summary"]
    return text


USUAL = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'"
"""The expression of NVIDIA's class ``gpu.nvidia.com``."""


def typed(*kinds: str) -> Plain:
    """One device of each type."""
    published = a_slice(*map(uuid, range(len(kinds))))
    for device, kind in zip(published["spec"]["devices"], kinds, strict=True):
        device["attributes"]["type"] = {"string": kind}
    return published


TWO = (node(cards=2), a_slice(uuid(0), uuid(1)), a_class(DRIVER))
FULL = (*TWO, a_claim("gpu-0", "a"), a_claim("gpu-1", "b"))
ONE_POD = volcano_bound("v", 4000)
UNSURE = (
    "devices fit on at most 1 of 1 nodes, best node-a: its ResourceClaims may exclude devices by"
    " expressions or constraints"
)


@pytest.mark.parametrize(
    ("things", "said"),
    [
        ((*TWO, unallocated()), "cards fit on node-a"),
        (
            (*FULL, unallocated()),
            "0 of 1 nodes fit: 1 node: 2 of 2 cards: in use, and asked for exclusively",
        ),
        (
            (*TWO, a_claim("gpu-0"), unallocated(a_request(count=2))),
            "0 of 1 nodes fit: 1 node: 1 of 2 devices free, 2 requested",
        ),
        ((*TWO, unallocated(a_request(count=2))), "cards fit on node-a"),
        (
            (*TWO, unallocated(a_request(count=3))),
            "0 of 1 nodes fit: 1 node: 2 of 2 devices free, 3 requested",
        ),
        (
            (*TWO, a_claim("gpu-0"), ONE_POD, unallocated()),
            "cards fit on node-a",
        ),
        (
            (*TWO, ONE_POD, unallocated(a_request(allocationMode="All"))),
            "0 of 1 nodes fit: 1 node: 1 of 2 cards: in use, and asked for exclusively",
        ),
        ((*TWO, unallocated(a_request(allocationMode="All"))), "cards fit on node-a"),
        ((*FULL, unallocated(a_request(adminAccess=True))), "cards fit on node-a"),
        (
            (*TWO, unallocated({"name": "r", "exactly": {"deviceClassName": "other"}})),
            "0 of 1 nodes fit: 1 node: DeviceClass other is not known",
        ),
        (TWO, "0 of 1 nodes fit: 1 node: ResourceClaim w is not known"),
        (
            (*TWO[:2], a_class(DRIVER, "device.attributes['x'].y == 'z'"), unallocated()),
            UNSURE,
        ),
        ((*TWO[:1], typed("gpu", "mig"), a_class(USUAL), unallocated()), "cards fit on node-a"),
        (
            (*TWO[:1], typed("gpu", "mig"), a_class(USUAL), unallocated(a_request(count=2))),
            "0 of 1 nodes fit: 1 node: 1 of 1 devices free, 2 requested",
        ),
        ((*TWO[:2], a_class(USUAL), unallocated()), UNSURE),
        ((*TWO, unallocated(constraints=[{"matchAttribute": "x/y"}])), UNSURE),
        (
            (*FULL[:2], a_class("device.attributes['x'].y == 'z'"), *FULL[3:], unallocated()),
            "0 of 1 nodes fit: 1 node: 2 of 2 cards: in use, and asked for exclusively",
        ),
    ],
)
def test_a_pod_with_a_claim_is_answered_as_any_other(things: tuple[Plain, ...], said: str) -> None:
    assert summary(*things, waiting()) == said


ROUNDED = {"default": "2000Mi", "validRange": {"min": "4000Mi", "step": "1000Mi"}}


@pytest.mark.parametrize(
    ("published", "request_", "said"),
    [
        (shared(), memory("6000Mi"), "cards fit on node-a"),
        (shared(), memory("6001Mi"), "1 of 1 cards: memory 1 MiB short"),
        (shared(), a_request(), "1 of 1 cards: memory 4000 MiB short"),
        (shared(ROUNDED), memory("5500Mi"), "cards fit on node-a"),
        (shared(ROUNDED), memory("6001Mi"), "1 of 1 cards: memory 1000 MiB short"),
        (shared(ROUNDED), a_request(count=3), "cards fit on node-a"),
        (shared(ROUNDED), a_request(count=4), "1 of 1 devices free, 4 requested"),
        (shared(), memory("20Gi"), "a request of 20Gi of memory is more than a claim can have"),
        (a_slice(uuid(0)), memory("20Gi"), "a request of 20Gi of memory is more than"),
        (a_slice(uuid(0)), memory("1Gi"), "in use, and asked for exclusively"),
        (
            shared(),
            a_request(capacity={"requests": {"cores": "1"}}),
            "device gpu-0 has no capacity cores",
        ),
    ],
)
def test_a_part_of_a_card_is_what_the_arbiter_would_let_it_have(
    published: Plain, request_: Plain, said: str
) -> None:
    things = (node(cards=1), published, a_class(DRIVER), ONE_POD, unallocated(request_))

    assert said in summary(*things, waiting())


def test_the_first_of_several_requests_that_fits_counts() -> None:
    whole = {"name": "whole", "deviceClassName": "gpu", "count": 2}
    part = {"name": "part", "deviceClassName": "gpu"}
    either = {"name": "r", "firstAvailable": [whole, part]}

    assert summary(*TWO, ONE_POD, unallocated(either), waiting()) == "cards fit on node-a"
    assert summary(*FULL, unallocated(either), waiting()).startswith("0 of 1 nodes fit")


def test_claims_of_a_template_take_different_devices() -> None:
    template = unallocated() | {"kind": "ResourceClaimTemplate"}
    template["spec"] = {"spec": template["spec"]}
    entries = [{"name": name, "resourceClaimTemplateName": "w"} for name in ("a", "b")]
    asks = pod("p", spec={"resourceClaims": entries})

    assert summary(*TWO, template, asks) == "cards fit on node-a"
    short = "0 of 1 nodes fit: 1 node: 1 of 2 devices free, 2 requested"
    assert summary(*TWO, ONE_POD, template, asks) == short
    unknown = "0 of 1 nodes fit: 1 node: ResourceClaimTemplate w is not known"
    assert summary(*TWO, asks) == unknown


def test_two_pods_of_one_claim_have_one_answer_and_go_where_it_has_devices() -> None:
    both = (waiting("p"), waiting("q"))
    other = node("node-b", cards=1)

    for name in ("p", "q"):
        assert summary(*TWO, other, unallocated(), *both, name=name) == "cards fit on node-a"
    held = a_claim("gpu-0", "w")
    del held["metadata"]["namespace"]
    names = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-a"]}]}
    held["status"]["allocation"]["nodeSelector"] = {"nodeSelectorTerms": [names]}
    assert summary(*TWO, other, held, waiting()) == "cards fit on node-a"
    explained = command("explain", "pod", "p", things=(*TWO, other, held, waiting("p")))
    assert explained.exit_code == 0


def test_a_claim_of_other_devices_is_not_ours() -> None:
    """A guest: a cluster whose claims are of network cards, and one without any slice."""
    nic = a_class('device.driver == "nic.example.com"')

    for things in ((*TWO[:2], nic, unallocated()), (node(), a_class(DRIVER), unallocated())):
        found = command("explain", "pod", "p", things=(*things, waiting()))
        assert "requests no share" in found.stdout
        assert found.exit_code == 0
        assert "no pods wait" in command("pending", things=(*things, waiting())).stderr


def test_schedule_does_not_allocate_claims_and_says_where_they_fit() -> None:
    fits = command("schedule", things=(*TWO, unallocated(), waiting()))
    full = command("schedule", things=(*FULL, unallocated(), waiting()))

    assert (fits.exit_code, full.exit_code) == (0, 1)
    assert "2 of 2 cards: in use, and asked for exclusively" in full.stdout


def test_constraints_of_nodes_count_first() -> None:
    cordoned = node("node-a", cards=2)
    cordoned["spec"] = {"unschedulable": True}

    found = summary(cordoned, *TWO[1:], unallocated(), waiting())
    assert found == "0 of 1 nodes fit: 1 node: unschedulable"


def test_a_claim_of_countless_combinations_is_answered_at_once() -> None:
    """An author can write 32 requests of 8 alternatives, and any count."""
    alternatives = [{"name": f"a{at}", "deviceClassName": "gpu"} for at in range(8)]
    requests = [{"name": f"r{at}", "firstAvailable": alternatives} for at in range(9)]
    many = a_request(count=1 << 40)

    assert summary(*TWO, unallocated(*requests), waiting()) == UNSURE
    too_many = "0 of 1 nodes fit: 1 node: requests more than the 32 devices that a claim can have"
    assert summary(*TWO, unallocated(many), waiting()) == too_many


def a_rule(effect: str = "NoSchedule") -> Plain:
    taint = {"key": "repair", "effect": effect}
    selector = {"driver": "gpu.nvidia.com", "device": "gpu-0"}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "rule"},
        "spec": {"deviceSelector": selector, "taint": taint},
    }


def network(**spec: object) -> tuple[Plain, Plain]:
    """A network card, on the node or as ``spec`` says, and its class."""
    published = a_slice("")
    published["metadata"]["name"] = "nics"
    published["spec"] |= {"driver": "nic.example.com", "devices": [{"name": "nic-0"}], **spec}
    of_nics = a_class('device.driver == "nic.example.com"') | {"metadata": {"name": "nic"}}
    return published, of_nics


def held(name: str, on: str = "node-a", **result: object) -> Plain:
    claim = a_claim("gpu-0", name, **result)
    claim["metadata"]["namespace"] = "default"
    field = {"key": "metadata.name", "operator": "In", "values": [on]}
    terms = [{"matchFields": [field]}]
    claim["status"]["allocation"]["nodeSelector"] = {"nodeSelectorTerms": terms}
    return claim


def a_nic(name: str = "n") -> Plain:
    return {"name": name, "exactly": {"deviceClassName": "nic"}}


ONE = (node(cards=1), a_slice(uuid(0)), a_class(DRIVER))
OTHER = a_class(DRIVER, 'device.driver == "b"')
IN_BRACKETS = a_class('!(device.attributes["x"].y == 1 && device.driver == "b" && 1 == 1)')
IN_GROUPS = a_class('device.driver == "nic" && (device.attributes["x"].y || "&&" == "(")')
TOO_MANY = {
    "name": "r",
    "firstAvailable": [
        {"name": "many", "deviceClassName": "gpu", "count": 40},
        {"name": "one", "deviceClassName": "gpu"},
    ],
}
QUOTA = {
    "apiVersion": "dragoman.dev/v1alpha1",
    "kind": "ShareQuota",
    "metadata": {"name": "quota", "namespace": "default"},
    "spec": {"limits": {"cards": 1}},
}


@pytest.mark.parametrize(
    ("things", "said"),
    [
        ((*ONE, a_rule(), unallocated()), "1 of 1 cards: taint repair:NoSchedule"),
        ((*ONE, a_rule("None"), unallocated()), "cards fit on node-a"),
        ((*ONE, a_rule(), unallocated(a_request(tolerations=[{"key": "other"}]))), UNSURE),
        ((*ONE[:2], OTHER, unallocated()), UNSURE),
        ((*ONE[:2], IN_BRACKETS, unallocated()), UNSURE),
        ((*ONE, unallocated(TOO_MANY)), "cards fit on node-a"),
        ((*TWO, QUOTA, unallocated(a_request(count=2))), "counts 2 cards, and the limit is 1"),
        ((*TWO, QUOTA, unallocated()), "cards fit on node-a"),
        ((*ONE, *network(), unallocated(a_request(), a_nic(), a_nic("m"))), UNSURE),
        (
            (*ONE, *network(nodeName=None, allNodes=True), unallocated(a_request(), a_nic())),
            UNSURE,
        ),
    ],
)
def test_what_else_decides_about_devices_counts(things: tuple[Plain, ...], said: str) -> None:
    assert said in summary(*things, waiting())


@pytest.mark.parametrize(
    "things",
    [
        (*ONE, *network(), unallocated(a_nic())),
        (*ONE[:2], IN_GROUPS, unallocated()),
        (*ONE, *network(), held("w", driver="nic.example.com")),
        (*ONE[:2], unallocated()),
    ],
    ids=["waits", "an expression with groups", "is allocated", "no class is read"],
)
def test_a_pod_with_network_cards_is_not_ours_in_a_cluster_with_cards(
    things: tuple[Plain, ...],
) -> None:
    explained = command("explain", "pod", "p", things=(*things, waiting()))

    assert "requests no share" in explained.stdout
    assert "no pods wait" in command("pending", things=(*things, waiting())).stderr


def test_claims_with_devices_on_different_nodes_fit_none() -> None:
    entries = [{"name": name, "resourceClaimName": name} for name in ("a", "b")]
    asks = pod("p", spec={"resourceClaims": entries})
    things = (*TWO, node("node-b", cards=1), held("a"), held("b", "node-b"))

    found = "0 of 2 nodes fit: 2 nodes: its ResourceClaim has devices elsewhere"
    assert summary(*things, asks) == found


def test_a_claim_that_a_pod_names_twice_counts_once() -> None:
    entries = [{"name": name, "resourceClaimName": "w"} for name in ("a", "b")]

    assert summary(*ONE, unallocated(), pod("p", spec={"resourceClaims": entries})) == (
        "cards fit on node-a"
    )


def test_a_share_and_a_claim_of_one_pod_fit_at_most() -> None:
    entries = [{"name": "c", "resourceClaimName": "w"}]
    asks = pod("p", volcano(5000), spec={"resourceClaims": entries})

    assert summary(*ONE, unallocated(), asks) == UNSURE


def test_a_pod_of_very_many_claims_is_answered_at_once() -> None:
    alternatives = [{"name": f"a{at}", "deviceClassName": "gpu"} for at in range(8)]
    requests = [{"name": f"r{at}", "firstAvailable": alternatives} for at in range(32)]
    template = unallocated(*requests) | {"kind": "ResourceClaimTemplate"}
    template["spec"] = {"spec": template["spec"]}
    entries = [{"name": f"c{at}", "resourceClaimTemplateName": "w"} for at in range(500)]

    assert summary(*TWO, template, pod("p", spec={"resourceClaims": entries})) == UNSURE


def test_a_node_with_many_cards_is_judged_surely() -> None:
    cards = tuple(uuid(at) for at in range(16))
    things = (node(cards=16), a_slice(*cards), a_class(DRIVER), ONE_POD)

    assert summary(*things, unallocated(a_request(count=15)), waiting()) == "cards fit on node-a"
    short = "0 of 1 nodes fit: 1 node: 15 of 16 devices free, 16 requested"
    assert summary(*things, unallocated(a_request(count=16)), waiting()) == short


def test_rows_of_claims_on_a_mixed_node_name_their_pods() -> None:
    held = a_claim("gpu-0", "held")
    held["metadata"] |= {"uid": "uid-held", "namespace": "default"}
    consumer = {"resource": "pods", "name": "user", "uid": "uid-user"}
    held["status"]["reservedFor"] = [consumer]
    spec = {"nodeName": "node-a", "resourceClaims": [{"name": "c", "resourceClaimName": "held"}]}
    user = pod("user", spec=spec, metadata={"uid": "uid-user"})
    things = (*TWO, held, user, volcano_bound("v", 4000, 1), unallocated(), waiting())

    shares, pods = (
        json.loads(command(*words, "-o", "json", things=things).stdout)["items"]
        for words in (("who", "node-a"), ("top", "pods"))
    )

    assert [(each["pod"], each["note"]) for each in shares] == [
        ("held", "ResourceClaim of user"),
        ("v", ""),
    ]
    assert {each["pod"]: each["note"] for each in pods} == {
        "held": "ResourceClaim of user",
        "v": "",
    }
    assert "no findings" in command("audit", things=things).stdout
    (row,) = json.loads(command("top", "-o", "json", things=things).stdout)["items"]
    assert (row["pods"], row["idle"], row["grantedMiB"]) == (2, 0, 14000)


def named_by(resource: str = "nvidia.com/gpu", name: str = "gpu", **metadata: object) -> Plain:
    """A class that names an extended resource."""
    return a_class(DRIVER, extendedResourceName=resource) | {
        "metadata": {"name": name, **metadata},
    }


def other_class(created: str) -> Plain:
    """A class of the same resource that means no card here."""
    other = named_by(name="another", creationTimestamp=created)
    other["spec"]["selectors"] = [{"cel": {"expression": 'device.driver == "gpu.other"'}}]
    return other


def advertising(amount: str) -> Plain:
    stated = {"nvidia.com/gpu": amount}
    return {"status": {"allocatable": stated, "capacity": stated}}


def plain(number: int = 1, **more: Plain) -> Plain:
    return pod("p", {"nvidia.com/gpu": number}, **more)


BY_CLASS = (node(cards=2, more=advertising("0")), a_slice(uuid(0), uuid(1)), named_by())
OF_PLUGIN = node("node-b", cards=0, more=advertising("2")) | {
    "metadata": {"name": "node-b"},
}
TAKEN = (a_claim("gpu-0", "a"), a_claim("gpu-1", "b"))
OWN = {"resourceClaims": [{"name": "c", "resourceClaimName": "w"}]}
EARLIER = "2020-01-01T00:00:00Z"
UNNAMED = "0 of 1 nodes fit: 1 node: does not state nvidia.com/gpu"


@pytest.mark.parametrize(
    ("things", "said"),
    [
        ((*BY_CLASS, plain(2)), "cards fit on node-a"),
        ((*BY_CLASS, plain(3)), "0 of 1 nodes fit: 1 node: 2 of 2 devices free, 3 requested"),
        ((*BY_CLASS, ONE_POD, plain()), "cards fit on node-a"),
        (
            (*BY_CLASS, *TAKEN, plain()),
            "0 of 1 nodes fit: 1 node: 2 of 2 cards: in use, and asked for exclusively",
        ),
        ((*BY_CLASS, OF_PLUGIN, plain()), "cards fit on 2 nodes, best node-b"),
        ((*BY_CLASS, *TAKEN, OF_PLUGIN, plain()), "cards fit on node-b"),
        ((*BY_CLASS[:2], named_by("example.com/gpu"), plain()), UNNAMED),
        ((*BY_CLASS, plain(spec={"schedulerName": "volcano"})), UNNAMED),
        ((*BY_CLASS[:2], a_class(USUAL, extendedResourceName="nvidia.com/gpu"), plain()), UNSURE),
        (
            (*BY_CLASS, other_class(AT), plain()),
            "0 of 1 nodes fit: 1 node: no device of another",
        ),
        (
            (*BY_CLASS[:2], named_by(creationTimestamp=AT), other_class(EARLIER), plain()),
            "cards fit on node-a",
        ),
        (
            (*BY_CLASS, unallocated(), plain(2, spec=OWN)),
            "0 of 1 nodes fit: 1 node: 2 of 2 devices free, 3 requested",
        ),
    ],
    ids=[
        "free",
        "too few",
        "beside a share",
        "full",
        "beside a plugin",
        "a plugin alone",
        "another resource",
        "a scheduler that makes no claims",
        "not sure",
        "the newest class",
        "an older class",
        "beside its own claim",
    ],
)
def test_a_resource_that_a_class_names_is_a_claim_where_no_node_advertises_it(
    things: tuple[Plain, ...], said: str
) -> None:
    assert summary(*things) == said


def user(name: str, *devices: str, **spec: object) -> tuple[Plain, ...]:
    """A pod on the node whose claims have a device each."""
    consumer = {"resource": "pods", "name": name, "uid": f"uid-{name}"}
    claims = [held(f"{name}-{device}") for device in devices]
    for claim, device in zip(claims, devices, strict=True):
        claim["metadata"]["uid"] = f"uid-{claim['metadata']['name']}"
        claim["status"]["reservedFor"] = [consumer]
        claim["status"]["allocation"]["devices"]["results"][0]["device"] = device
    entries = [{"name": device, "resourceClaimName": f"{name}-{device}"} for device in devices]
    spec = {"nodeName": "node-a", "resourceClaims": entries, **spec}
    return *claims, pod(name, spec=spec, metadata={"uid": f"uid-{name}"})


USERS = (*user("low", "gpu-0"), *user("high", "gpu-1", priority=20))
URGENT = waiting() | {"spec": waiting()["spec"] | {"priority": 10}}
EVICTED = (
    "evict on node-a: default/low (pod of a claim, priority 0); of lower priority, so the service"
    " does it with preemption.enabled"
)
ENDED = "end on node-a: default/low (pod of a claim, priority 0)"


def spec_of(asks: Plain, **spec: object) -> Plain:
    return asks | {"spec": asks["spec"] | spec}


@pytest.mark.parametrize(
    ("things", "asks", "line"),
    [
        ((*TWO, *USERS, unallocated()), URGENT, EVICTED),
        ((*TWO, *USERS, unallocated()), waiting(), ENDED),
        ((*TWO, *USERS, unallocated()), spec_of(URGENT, preemptionPolicy="Never"), ENDED),
        ((*TWO, *USERS, unallocated()), spec_of(URGENT, schedulerName="volcano"), ENDED),
        (
            (*TWO, *user("low", "gpu-0", "gpu-1"), unallocated(a_request(count=2))),
            URGENT,
            EVICTED,
        ),
        (
            (*TWO, *TAKEN, unallocated()),
            URGENT,
            "end on node-a: ResourceClaim team/b",
        ),
        ((*BY_CLASS, *USERS), plain(spec={"priority": 10}), EVICTED),
        (
            (node("node-a", cards=2) | {"spec": {"unschedulable": True}}, *TWO[1:], unallocated()),
            URGENT,
            "let it run on node-a: unschedulable",
        ),
        (
            (*TWO[:2], a_class(DRIVER, "device.attributes['x'].y == 'z'"), *USERS, unallocated()),
            URGENT,
            "no single change of the request, and no eviction on one node",
        ),
    ],
    ids=[
        "of lower priority",
        "of the same priority",
        "never preempts",
        "a scheduler that evicts none for devices",
        "one pod of two claims",
        "a claim of no pod",
        "a resource that a class names",
        "a cordon",
        "not sure",
    ],
)
def test_what_would_make_a_pod_of_claims_fit_is_said_as_of_any_other(
    things: tuple[Plain, ...], asks: Plain, line: str
) -> None:
    explained = command("explain", "pod", "p", things=(*things, asks)).stdout
    noted = command("pending", things=(*things, asks)).stderr

    assert explained.partition("What would make it fit\n")[2].splitlines()[0].strip() == line
    assert ("evicting default/low (priority 0) would make room" in noted) == (line == EVICTED)


def test_schedule_takes_a_plugins_devices_first_and_makes_no_claims() -> None:
    two = plain(2) | {"metadata": {"name": "q"}}

    assert run("-f", "-", stdin=stream(*BY_CLASS, OF_PLUGIN, plain(), two)).exit_code == 0
    lines = [
        (each["name"], each["node"], each["explanation"]["summary"])
        for each in report(*BY_CLASS, OF_PLUGIN, plain(), two)["pods"]
    ]

    assert lines == [
        ("p", "node-b", "1 nvidia.com/gpu of the device plugin, no card of the ledger"),
        ("q", None, "cards fit on node-a"),
    ]
    assert run("-f", "-", stdin=stream(*BY_CLASS, *TAKEN, plain())).exit_code == 1
