"""The API server: its version, what it serves, and what it lets the accounts do.

The accounts are those of the service, the agents and the schedulers.
"""

import re
from collections.abc import Iterator

from adapters.cli.configure.options import Scheduler
from adapters.cli.doctor.finding import CheckResult, error, ok, warning
from adapters.cli.doctor.objects import has
from adapters.cli.doctor.observed import Account, Observed, Permission, SchedulerPod, scheduler_pods

OLDEST = (1, 30)
"""Since then, matchConditions of webhooks and admission policies are stable."""

VERSION = "v1alpha1"

OWNED = ("volcano.sh/", "koordinator.sh/", "metax-tech.com/")
"""Prefixes of resources with which pods of a dialect request shares."""


def check_api_server(seen: Observed) -> Iterator[CheckResult]:
    """Check the API server's version, the definition of NodeLedger, and what could not be read."""
    text, found = seen.version, kubernetes_version(seen)
    if found is None:
        yield warning(
            "cluster", f"the API server's version is {text!r}", "use Kubernetes 1.30 or later"
        )
    elif found < OLDEST:
        remedy = "upgrade the cluster: the chart's policies need 1.30"
        yield error("cluster", f"the API server is Kubernetes {text}", remedy)
    else:
        yield ok("cluster", f"the API server is Kubernetes {text}")
    definition = seen.definition
    if definition is not None:
        served = {each.name for each in definition.spec.versions if each.served}
        if VERSION not in served:
            names = ", ".join(sorted(served)) or "none"
            remedy = "kubectl apply -f configs/crd of this version of Dragoman"
            yield error("cluster", f"NodeLedger is served in {names}, not in {VERSION}", remedy)
        elif not has(definition.status.conditions, "Established"):
            remedy = "kubectl describe crd nodeledgers.dragoman.dev"
            yield error("cluster", "the definition of NodeLedger is not established", remedy)
        else:
            yield ok("cluster", f"NodeLedger is defined; {len(seen.ledgers)} nodes have a ledger")
    elif "customresourcedefinitions" not in seen.unreadable:
        yield error(
            "cluster",
            "the kind NodeLedger is not defined, so no allocation can be written",
            "kubectl apply -f configs/crd, or install the chart with crd.install=true",
        )
    for kind, why in sorted(seen.unreadable.items()):
        yield warning(
            "cluster", f"{kind} cannot be read: {why}", f"run doctor as a user that may read {kind}"
        )


def kubernetes_version(seen: Observed) -> tuple[int, int] | None:
    """Major and minor version of the API server; None where they are not known."""
    found = re.match(r"v?(\d+)\.(\d+)", seen.version)
    return None if found is None else (int(found[1]), int(found[2]))


def check_claims(seen: Observed) -> Iterator[CheckResult]:
    """Return the API of claims, and classes that take the place of a dialect's resources."""
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


LEDGERS, CLAIMS = "dragoman.dev", "resource.k8s.io"
GANGS = (
    "scheduling.k8s.io",
    "scheduling.sigs.k8s.io",
    "scheduling.x-k8s.io",
    "scheduling.volcano.sh",
)
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
_READ_CLAIMS = tuple(
    Permission(verb, CLAIMS, plural)
    for verb in ("get", "list", "watch")
    for plural in ("resourceclaims", "resourceslices", "deviceclasses", "devicetaintrules")
)
_WEBHOOKS = "admissionregistration.k8s.io"

ASKS_FOR_BINDING = (1, 36)

# Source: volcano.sh/volcano v1.14.1 pkg/scheduler/plugins/predicates/predicates.go; off by default
VOLCANO_ALLOCATES = re.compile(r"predicate\.DynamicResourceAllocationEnable:\s*[\"']?true")


def needed(seen: Observed) -> Iterator[tuple[Account, Permission]]:
    """Return what each account of an installation must be allowed."""
    for release in seen.releases():
        own, account = release.namespace, Account(release.namespace, release.name)
        wanted = [
            *_COMMON,
            Permission("update", "coordination.k8s.io", "leases", "dragoman-reconciler", own),
        ]
        if release.settings.get("nodeLock") == "auto":
            wanted.append(Permission("patch", "", "nodes"))
        if release.settings.get("publish"):
            wanted.append(Permission("patch", "", "nodes/status"))
        if release.below("web", "authorize"):
            wanted += [
                Permission("create", "authentication.k8s.io", "tokenreviews"),
                Permission("create", "authorization.k8s.io", "subjectaccessreviews"),
            ]
        if release.evicts:
            wanted.append(Permission("create", "", "pods/eviction"))
        if release.reads_claims:
            wanted += _READ_CLAIMS
        if release.below("dra", "arbiter"):
            wanted.append(Permission("patch", CLAIMS, "resourceclaims"))
        if release.below("dra", "shadows"):
            wanted += [
                Permission("create", CLAIMS, "resourceclaims", namespace=own),
                Permission("delete", CLAIMS, "resourceclaims", namespace=own),
                Permission("update", CLAIMS, "resourceclaims/status", namespace=own),
                Permission("update", CLAIMS, "resourceclaims/binding"),
            ]
        if release.below("tls", "managed"):
            wanted += [
                Permission(verb, "", "secrets", release.secret, own) for verb in ("get", "patch")
            ]
            wanted.append(
                Permission("update", _WEBHOOKS, "mutatingwebhookconfigurations", release.name)
            )
        yield from ((account, each) for each in wanted)
    for agent in seen.agents():
        name = agent.spec.template.spec.service_account_name
        account = Account(agent.metadata.namespace, name or "default")
        yield from ((account, each) for each in _AGENT)


def check_permissions(seen: Observed) -> Iterator[CheckResult]:
    """Return a finding for each account, and one for each permission that it lacks."""
    asked = list(needed(seen))
    unknown = [each for each in asked if each not in seen.reviews]
    if unknown:
        why = seen.unreadable.get("subjectaccessreviews", "no answer")
        yield warning(
            "permissions",
            f"{len(unknown)} permissions of service accounts are not known: {why}",
            "run doctor as a user that may create subjectaccessreviews",
        )
    for account in dict.fromkeys(account for account, _ in asked):
        own = [each for owner, each in asked if owner == account]
        missing = [each for each in own if seen.reviews.get((account, each)) is False]
        for each in missing:
            yield error(
                "permissions",
                f"the service account {account} may not {each}",
                "upgrade the release, whose chart has the roles; or restore its ClusterRoleBinding",
            )
        if not missing and all((account, each) in seen.reviews for each in own):
            yield ok("permissions", f"the service account {account} has its {len(own)} permissions")


def needed_for_claims(seen: Observed) -> Iterator[tuple[Account, Permission]]:
    """Return what the accounts of schedulers of claims must be allowed."""
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
    """Return the accounts of the schedulers that allocate claims, with one pod of each.

    kube-scheduler is none of them: Kubernetes itself gives it what it needs.
    """
    if not seen.reads_claims:
        return {}
    allocating: dict[Account, SchedulerPod] = {}
    for found in scheduler_pods(seen.pods):
        space = found.pod.metadata.namespace
        allocates = found.scheduler is Scheduler.KOORD
        if found.scheduler is Scheduler.VOLCANO and found.source is not None:
            name, key = found.source
            config = seen.config_maps.get((space, name))
            text = "" if config is None else (config.data or {}).get(key, "")
            allocates = VOLCANO_ALLOCATES.search(text) is not None
        if allocates:
            account = Account(space, found.pod.spec.service_account_name or "default")
            allocating[account] = found
    return allocating
