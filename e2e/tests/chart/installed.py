"""A control plane in which the chart is installed, and nothing runs."""

from e2e.harness.cluster import chart
from e2e.harness.cluster.api import Api, ApiError, Object
from e2e.harness.cluster.control_plane import ControlPlane, start_control_plane
from e2e.harness.names import LEDGERS, NAMESPACE
from e2e.harness.processes.run import Run
from e2e.harness.processes.waiting import within

ACCOUNT = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default"
"""The service account of pods that name none; a controller creates it."""

FOREIGN = (
    ("monitoring.coreos.com", "ServiceMonitor"),
    ("monitoring.coreos.com", "PrometheusRule"),
    ("cert-manager.io", "Issuer"),
    ("cert-manager.io", "Certificate"),
)
"""Kinds of operators that are not part of the test bed: only their presence is reported."""


def foreign(group: str, kind: str) -> Object:
    """A definition of a kind that takes anything."""
    plural = f"{kind.lower()}s"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "versions": [version | {"name": "v1"}],
        },
    }


def of_schedulers(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def rendered(values: Object) -> list[Object]:
    """What ``helm install`` applies: without the pods of ``helm test``."""
    return [each for each in chart.render(values) if each["kind"] != "Pod"]


def installed(run: Run) -> ControlPlane:
    """Start a control plane and install the chart with its defaults."""
    plane = start_control_plane(run)
    spaces = (NAMESPACE, "volcano-system", "koordinator-system")
    chart.apply(plane, map(of_schedulers, spaces))
    definitions = [foreign(group, kind) for group, kind in FOREIGN]
    objects = rendered({})
    chart.apply(plane, [*definitions, objects.pop(_crd(objects))])
    within(30, lambda: _served(plane.api))
    chart.apply(plane, objects)
    within(30, lambda: answers(plane.api, ACCOUNT))
    return plane


def _crd(objects: list[Object]) -> int:
    kinds = [each["kind"] for each in objects]
    return kinds.index("CustomResourceDefinition")


def _served(api: Api) -> bool:
    foreigners = (f"/apis/{group}/v1/{kind.lower()}s" for group, kind in FOREIGN)
    return all(answers(api, path) for path in (LEDGERS, *foreigners))


def answers(api: Api, path: str) -> bool:
    """Whether a definition's collection is there; for a moment it says 429."""
    try:
        api.get(path)
    except ApiError:
        return False
    return True
