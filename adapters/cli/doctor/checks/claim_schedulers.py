"""Whether schedulers that allocate ResourceClaims have the rights that Kubernetes asks for.

Volcano's chart before 1.15 lacks ``resourceclaims/binding``, which Kubernetes asks for from 1.36 on
(volcano.sh/volcano v1.14.1 installer/helm/chart/volcano/templates/scheduler.yaml; k8s.io/kubernetes
v1.37.1 pkg/registry/resource/utils.go). Koordinator 1.8.0 binds its account to kube-scheduler's own
role besides one of its own, which lacks them (config/rbac/scheduler_role_binding.yaml).
"""

import re
from collections.abc import Iterator

from adapters.cli.configure.options import Scheduler
from adapters.cli.doctor.checks.claims import CHECK, reads_claims
from adapters.cli.doctor.checks.cluster import kubernetes_version
from adapters.cli.doctor.finding import CheckResult, ok, warning
from adapters.cli.doctor.observed import Account, Observed, Permission
from adapters.cli.doctor.scheduler_pods import SchedulerPod, scheduler_pods

ASKS_FOR_BINDING = (1, 36)

_GROUP = "resource.k8s.io"
# Source: volcano.sh/volcano v1.14.1 pkg/scheduler/plugins/predicates/predicates.go; off by default
_VOLCANO_ALLOCATES = re.compile(r"predicate\.DynamicResourceAllocationEnable:\s*[\"']?true")


def needed(seen: Observed) -> Iterator[tuple[Account, Permission]]:
    """What the accounts of schedulers of claims must be allowed."""
    for account in _allocating(seen):
        yield from ((account, each) for each in _permissions(seen))


def check(seen: Observed) -> Iterator[CheckResult]:
    """A finding for each account of koord-scheduler or vc-scheduler that allocates claims."""
    for account, scheduler in _allocating(seen).items():
        asked = list(_permissions(seen))
        missing = [each for each in asked if seen.reviews.get((account, each)) is False]
        program = scheduler.scheduler.value
        if missing:
            what = ", ".join(map(str, missing))
            row = f"{{namespace: {account.namespace}, serviceAccount: {account.name}}}"
            yield warning(
                CHECK,
                f"{program} allocates ResourceClaims, and its service account {account} may not"
                f" {what}: pods with claims that it schedules stay unbound",
                f"add {row} to the chart's value dra.schedulers, which gives it a role; or give"
                " the account these rights",
            )
        elif all((account, each) in seen.reviews for each in asked):
            yield ok(CHECK, f"the service account {account} of {program} may allocate claims")


def _permissions(seen: Observed) -> Iterator[Permission]:
    yield Permission("update", _GROUP, "resourceclaims")
    yield Permission("update", _GROUP, "resourceclaims/status")
    if (kubernetes_version(seen) or ASKS_FOR_BINDING) >= ASKS_FOR_BINDING:
        yield Permission("update", _GROUP, "resourceclaims/binding")


def _allocating(seen: Observed) -> dict[Account, SchedulerPod]:
    """The accounts of the schedulers that allocate claims, with one pod of each.

    kube-scheduler is none of them: Kubernetes itself gives it what it needs.
    """
    if not any(map(reads_claims, seen.releases())):
        return {}
    return {
        Account(
            found.pod.metadata.namespace, found.pod.spec.service_account_name or "default"
        ): found
        for found in scheduler_pods(seen.pods)
        if _allocates(seen, found)
    }


def _allocates(seen: Observed, found: SchedulerPod) -> bool:
    if found.scheduler is Scheduler.KOORD:
        return True
    if found.scheduler is not Scheduler.VOLCANO or found.source is None:
        return False
    name, key = found.source
    config = seen.config_maps.get((found.pod.metadata.namespace, name))
    text = "" if config is None else (config.data or {}).get(key, "")
    return _VOLCANO_ALLOCATES.search(text) is not None
