"""The API server, the kind of the ledgers, and the API of ResourceClaims."""

import re
from collections.abc import Iterator

from adapters.cli.doctor.finding import CheckResult, error, ok, warning
from adapters.cli.doctor.objects import has
from adapters.cli.doctor.observed import Observed

CHECK = "cluster"
OLDEST = (1, 30)
"""Since then, matchConditions of webhooks and admission policies are stable."""

VERSION = "v1alpha1"

OWNED = ("volcano.sh/", "koordinator.sh/", "metax-tech.com/")
"""Prefixes of resources with which pods of a dialect request shares."""


def check(seen: Observed) -> Iterator[CheckResult]:
    """The version of the API server, the definition of NodeLedger, and what could not be read."""
    text, found = seen.version, kubernetes_version(seen)
    if found is None:
        yield warning(
            CHECK, f"the API server's version is {text!r}", "use Kubernetes 1.30 or later"
        )
    elif found < OLDEST:
        remedy = "upgrade the cluster: the chart's policies need 1.30"
        yield error(CHECK, f"the API server is Kubernetes {text}", remedy)
    else:
        yield ok(CHECK, f"the API server is Kubernetes {text}")
    definition = seen.definition
    if definition is not None:
        served = {each.name for each in definition.spec.versions if each.served}
        if VERSION not in served:
            names = ", ".join(sorted(served)) or "none"
            remedy = "kubectl apply -f configs/crd of this version of Dragoman"
            yield error(CHECK, f"NodeLedger is served in {names}, not in {VERSION}", remedy)
        elif not has(definition.status.conditions, "Established"):
            remedy = "kubectl describe crd nodeledgers.dragoman.dev"
            yield error(CHECK, "the definition of NodeLedger is not established", remedy)
        else:
            yield ok(CHECK, f"NodeLedger is defined; {len(seen.ledgers)} nodes have a ledger")
    elif "customresourcedefinitions" not in seen.unreadable:
        yield error(
            CHECK,
            "the kind NodeLedger is not defined, so no allocation can be written",
            "kubectl apply -f configs/crd, or install the chart with crd.install=true",
        )
    for kind, why in sorted(seen.unreadable.items()):
        yield warning(
            CHECK, f"{kind} cannot be read: {why}", f"run doctor as a user that may read {kind}"
        )


def kubernetes_version(seen: Observed) -> tuple[int, int] | None:
    """Major and minor version of the API server; None where they are not known."""
    found = re.match(r"v?(\d+)\.(\d+)", seen.version)
    return None if found is None else (int(found[1]), int(found[2]))


def check_claims(seen: Observed) -> Iterator[CheckResult]:
    """The API of claims, and classes that take the place of a dialect's resources."""
    if not seen.reads_claims or "deviceclasses" in seen.unreadable:
        return
    if seen.device_classes is None:
        yield error(
            "claims",
            "dra.enabled is set, and the API server does not serve resource.k8s.io/v1: no"
            " ResourceClaim is seen",
            "use Kubernetes 1.34 or later, and remove the API from --runtime-config where it is"
            " turned off; or set dra.enabled=false",
        )
        return
    yield ok("claims", "the API server serves resource.k8s.io/v1")
    for each in seen.device_classes:
        name = each.spec.extended_resource_name or ""
        if name.startswith(OWNED):
            yield warning(
                "claims",
                f"DeviceClass {each.metadata.name} answers requests of {name}: a pod that requests"
                " it gets a whole device, whatever memory it requests",
                f"remove extendedResourceName from the class: pods of the dialect request {name}",
            )
