"""What the identities of a cluster can do with the objects that Dragoman reads and writes.

A real API server decides, with the chart's roles and policies.
"""

from dataclasses import replace

import pytest

from e2e.harness.cluster import chart
from e2e.harness.cluster.accounts import account
from e2e.harness.cluster.api import Api, ApiError
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.credentials import connect
from e2e.harness.names import LEDGERS, NAMESPACE
from e2e.harness.processes.waiting import within
from e2e.tests.chart.attempts import (
    ATTEMPTS,
    BOUND,
    CLAIMS,
    KEY,
    NODES,
    OWN,
    PODS,
    RIGHTS,
    SPACE,
    Attempt,
    a_ledger,
    a_pod,
    annotated,
)
from e2e.tests.chart.installed import answers, rendered

pytestmark = [pytest.mark.local, pytest.mark.refusals]

POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
FIRST = {
    "a result by a merge patch",
    "a marked ephemeral container",
    "a ledger with fences",
    "an image",
}
"""One attempt for each policy and identity."""


def bound(api: Api, name: str, to: str, kind: str = "User", space: str = "tenant") -> None:
    """Give a user, or an account of kube-system, a role in a namespace; everywhere if empty."""
    path = f"{RIGHTS}/namespaces/{space}/rolebindings" if space else f"{RIGHTS}/clusterrolebindings"
    subject = {"kind": kind, "name": name}
    subject |= {"namespace": "kube-system"} if kind == "ServiceAccount" else {}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": to}
    api.create(path, {"metadata": {"name": f"{name}-{to}"}, "roleRef": role, "subjects": [subject]})


def a_role(api: Api, name: str, resources: list[str], *verbs: str) -> None:
    rule = {"apiGroups": [""], "resources": resources, "verbs": list(verbs)}
    api.create(f"{RIGHTS}/clusterroles", {"metadata": {"name": name}, "rules": [rule]})


@pytest.fixture(scope="module")
def identities(plane: ControlPlane) -> dict[str, Api]:
    """The server as each identity sees it, with the objects that they try to change."""
    api = plane.api
    chart.apply(plane, rendered({"dra": {"enabled": True, "arbiter": {"enabled": True}}}))
    api.create("/api/v1/namespaces", {"metadata": {"name": "tenant"}})
    for node in ("n21", "n22"):
        api.create(NODES, {"metadata": {"name": node}})
    api.create(LEDGERS, a_ledger("n22"))
    for path in (SPACE, "/api/v1/namespaces/kube-system"):
        within(30, lambda path=path: answers(api, f"{path}/serviceaccounts/default"))  # type: ignore[misc]
    for made in (
        a_pod(BOUND),
        a_pod("waiting"),
        a_pod("placed"),
        a_pod("on-n21", nodeName="n21"),
        a_pod("on-n22", nodeName="n22"),
    ):
        api.create(PODS, made)
    for part in ("annotations", "labels"):
        api.merge(f"{PODS}/{BOUND}", annotated(value="n21", part=part))
    api.create("/api/v1/namespaces/default/pods", a_pod("elsewhere"))
    device = {"name": "r", "exactly": {"deviceClassName": "cards"}}
    api.create(CLAIMS, {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [device]}}})
    api.create(f"{OWN}/pods", a_pod("of-n21", serviceAccountName="dragoman-node", nodeName="n21"))
    plugin = {"metadata": {"name": "volcano-device-plugin"}}
    api.create("/api/v1/namespaces/kube-system/serviceaccounts", plugin)
    a_role(api, "binds-pods", ["pods/binding"], "create")
    a_role(api, "patches-pods", ["pods"], "get", "patch")
    a_role(api, "debugs-pods", ["pods/resize", "pods/ephemeralcontainers"], "get", "patch")
    bound(api, "editor", "edit")
    bound(api, "operator", "debugs-pods")
    bound(api, "scheduler", "patches-pods", space="")
    bound(api, "scheduler", "binds-pods")
    bound(api, "volcano-device-plugin", "patches-pods", "ServiceAccount")
    found = {name: api.impersonating(name) for name in ("editor", "operator", "scheduler")}
    found |= {
        "kubelet": plane.as_user("system:node:n21", "system:nodes"),
        "agent": connect(account(plane, NAMESPACE, "dragoman-node", "of-n21")),
        "plugin": connect(account(plane, "kube-system", "volcano-device-plugin")),
        "service": connect(account(plane, NAMESPACE, "dragoman")),
    }
    # Roles and policies take effect a moment after they are written.
    for first in ATTEMPTS:
        if first.what in FIRST:
            dry = replace(first, path=f"{first.path}?dryRun=All")
            within(30, lambda dry=dry: met(found[dry.who], dry))  # type: ignore[misc]
    return found


def answer(api: Api, attempt: Attempt) -> str:
    """The refusal; empty where the request was accepted."""
    try:
        api.call(attempt.verb, attempt.path, attempt.body, attempt.kind)
    except ApiError as error:
        return str(error)
    return ""


def met(api: Api, attempt: Attempt) -> bool:
    """Whether an attempt ends as it must."""
    said = answer(api, attempt)
    return attempt.refusal in said and bool(said) == bool(attempt.refusal)


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda each: f"{each.who}: {each.what}")
def test_an_identity_does_what_it_may_and_nothing_else(
    identities: dict[str, Api], attempt: Attempt
) -> None:
    said = answer(identities[attempt.who], attempt)

    assert attempt.refusal in said
    assert bool(said) == bool(attempt.refusal), said


@pytest.mark.parametrize("part", ["resize", "ephemeralcontainers"])
def test_a_result_written_by_another_part_of_a_pod_has_no_effect(
    plane: ControlPlane, identities: dict[str, Api], part: str
) -> None:
    path = f"{PODS}/waiting"
    identities["operator"].merge(f"{path}/{part}", annotated())

    assert KEY not in plane.api.get(path)["metadata"].get("annotations", {})


def test_a_nodes_mirror_pod_with_a_result_reaches_the_webhook(
    plane: ControlPlane, identities: dict[str, Api]
) -> None:
    node = plane.api.get(f"{NODES}/n21")["metadata"]
    owner = {"apiVersion": "v1", "kind": "Node", "controller": True}
    mirror = a_pod("mirror", nodeName="n21")
    mirror["metadata"] |= {
        "annotations": {"kubernetes.io/config.mirror": "x", KEY: "n21"},
        "ownerReferences": [{**owner, "name": "n21", "uid": node["uid"]}],
    }

    with pytest.raises(ApiError, match=r"pods\.dragoman\.dev"):
        identities["kubelet"].create(PODS, mirror)


def test_the_policy_knows_every_part_of_a_pod_by_which_it_can_be_changed(
    plane: ControlPlane,
) -> None:
    policy = plane.api.get(f"{POLICIES}/dragoman-results")["spec"]["matchConstraints"]
    (rule,) = policy["resourceRules"]
    changed = {
        each["name"]
        for each in plane.api.get("/api/v1")["resources"]
        if each["name"].partition("/")[0] == "pods" and {"update", "patch"} & {*each["verbs"]}
    }

    assert changed - {"pods/proxy"} == {*rule["resources"]}
