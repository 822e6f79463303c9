"""Whether the accounts of the service, the agents and the schedulers may do what they do."""

import re
from collections.abc import Iterator, Mapping

from adapters.cli.configure.options import Scheduler
from adapters.cli.doctor.checks.cluster import kubernetes_version
from adapters.cli.doctor.finding import CheckResult, error, ok, warning
from adapters.cli.doctor.observed import (
    Account,
    Installation,
    Observed,
    Permission,
    SchedulerPod,
    scheduler_pods,
)

CHECK = "permissions"

LEDGERS, CLAIMS = "dragoman.dev", "resource.k8s.io"
GANGS = ("scheduling.k8s.io", "scheduling.sigs.k8s.io", "scheduling.x-k8s.io")
_COMMON = (
    *(Permission(verb, "", "pods") for verb in ("get", "list", "watch", "patch")),
    *(Permission(verb, "", "nodes") for verb in ("get", "list", "watch")),
    *(
        Permission(verb, LEDGERS, "nodeledgers")
        for verb in ("get", "list", "watch", "create", "update", "delete")
    ),
    *(Permission(verb, "", "resourcequotas") for verb in ("list", "watch")),
    *(Permission(verb, LEDGERS, "sharequotas") for verb in ("get", "list", "watch", "create")),
    Permission("update", LEDGERS, "sharequotas/status"),
    *(Permission(verb, group, "podgroups") for group in GANGS for verb in ("list", "watch")),
    Permission("create", "", "pods/binding"),
    Permission("create", "events.k8s.io", "events"),
    Permission("list", "policy", "poddisruptionbudgets"),
)
_AGENT = (
    *(Permission(verb, LEDGERS, "nodeledgers") for verb in ("list", "watch", "create")),
    Permission("patch", LEDGERS, "nodeledgers/status"),
    Permission("create", "events.k8s.io", "events"),
)

ASKS_FOR_BINDING = (1, 36)

# Source: volcano.sh/volcano v1.14.1 pkg/scheduler/plugins/predicates/predicates.go; off by default
_VOLCANO_ALLOCATES = re.compile(r"predicate\.DynamicResourceAllocationEnable:\s*[\"']?true")


def needed(seen: Observed) -> Iterator[tuple[Account, Permission]]:
    """What each account of an installation must be allowed."""
    for release in seen.releases():
        account = Account(release.namespace, release.name)
        yield from ((account, each) for each in _of_service(release))
    for agent in seen.agents():
        name = agent.spec.template.spec.service_account_name
        account = Account(agent.metadata.namespace, name or "default")
        yield from ((account, each) for each in _AGENT)


def check(seen: Observed) -> Iterator[CheckResult]:
    """A finding for each account, and one for each permission that it lacks."""
    asked = list(needed(seen))
    unknown = [each for each in asked if each not in seen.reviews]
    if unknown:
        why = seen.unreadable.get("subjectaccessreviews", "no answer")
        yield warning(
            CHECK,
            f"{len(unknown)} permissions of service accounts are not known: {why}",
            "run doctor as a user that may create subjectaccessreviews",
        )
    for account in dict.fromkeys(account for account, _ in asked):
        own = [each for owner, each in asked if owner == account]
        missing = [each for each in own if seen.reviews.get((account, each)) is False]
        for each in missing:
            yield error(
                CHECK,
                f"the service account {account} may not {each}",
                "upgrade the release, whose chart has the roles; or restore its ClusterRoleBinding",
            )
        if not missing and all((account, each) in seen.reviews for each in own):
            yield ok(CHECK, f"the service account {account} has its {len(own)} permissions")


def _of_service(release: Installation) -> Iterator[Permission]:
    yield from _COMMON
    lock = "dragoman-reconciler"
    yield Permission("update", "coordination.k8s.io", "leases", lock, release.namespace)
    if release.settings.get("nodeLock") == "auto":
        yield Permission("patch", "", "nodes")
    if release.settings.get("publish"):
        yield Permission("patch", "", "nodes/status")
    if release.evicts:
        yield Permission("create", "", "pods/eviction")
    yield from _of_claims(release)
    tls = release.settings.get("tls")
    if isinstance(tls, Mapping) and tls.get("managed"):
        for verb in ("get", "patch"):
            yield Permission(verb, "", "secrets", release.secret, release.namespace)
        webhooks = "mutatingwebhookconfigurations"
        yield Permission("update", "admissionregistration.k8s.io", webhooks, release.name)


def _of_claims(release: Installation) -> Iterator[Permission]:
    if release.reads_claims:
        for verb in ("get", "list", "watch"):
            for plural in ("resourceclaims", "resourceslices", "deviceclasses"):
                yield Permission(verb, CLAIMS, plural)
    if release.dra("shadows"):
        own = release.namespace
        yield Permission("create", CLAIMS, "resourceclaims", namespace=own)
        yield Permission("delete", CLAIMS, "resourceclaims", namespace=own)
        yield Permission("update", CLAIMS, "resourceclaims/status", namespace=own)
        yield Permission("update", CLAIMS, "resourceclaims/binding")


def needed_for_claims(seen: Observed) -> Iterator[tuple[Account, Permission]]:
    """What the accounts of schedulers of claims must be allowed."""
    for account in _allocating(seen):
        yield from ((account, each) for each in _permissions(seen))


def check_claim_schedulers(seen: Observed) -> Iterator[CheckResult]:
    """Report each account of koord-scheduler or vc-scheduler that allocates claims.

    Volcano's chart before 1.15 lacks ``resourceclaims/binding``, which Kubernetes asks for from
    1.36 on (volcano.sh/volcano v1.14.1 installer/helm/chart/volcano/templates/scheduler.yaml;
    k8s.io/kubernetes v1.37.1 pkg/registry/resource/utils.go). Koordinator 1.8.0 binds its account
    to kube-scheduler's own role besides one of its own, which lacks them
    (config/rbac/scheduler_role_binding.yaml).
    """
    for account, scheduler in _allocating(seen).items():
        asked = list(_permissions(seen))
        missing = [each for each in asked if seen.reviews.get((account, each)) is False]
        program = scheduler.scheduler.value
        if missing:
            what = ", ".join(map(str, missing))
            row = f"{{namespace: {account.namespace}, serviceAccount: {account.name}}}"
            yield warning(
                "claims",
                f"{program} allocates ResourceClaims, and its service account {account} may not"
                f" {what}: pods with claims that it schedules stay unbound",
                f"add {row} to the chart's value dra.schedulers, which gives it a role; or give"
                " the account these rights",
            )
        elif all((account, each) in seen.reviews for each in asked):
            yield ok("claims", f"the service account {account} of {program} may allocate claims")


def _permissions(seen: Observed) -> Iterator[Permission]:
    yield Permission("update", CLAIMS, "resourceclaims")
    yield Permission("update", CLAIMS, "resourceclaims/status")
    if (kubernetes_version(seen) or ASKS_FOR_BINDING) >= ASKS_FOR_BINDING:
        yield Permission("update", CLAIMS, "resourceclaims/binding")


def _allocating(seen: Observed) -> dict[Account, SchedulerPod]:
    """The accounts of the schedulers that allocate claims, with one pod of each.

    kube-scheduler is none of them: Kubernetes itself gives it what it needs.
    """
    if not seen.reads_claims:
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
