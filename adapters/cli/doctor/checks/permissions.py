"""Whether the accounts of the service and of the agents may do what they do."""

from collections.abc import Iterator, Mapping

from adapters.cli.doctor.checks.claims import reads_claims, setting
from adapters.cli.doctor.finding import CheckResult, error, ok, warning
from adapters.cli.doctor.observed import Account, Installation, Observed, Permission

CHECK = "permissions"

LEDGERS = "dragoman.dev"
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
    preemption = release.settings.get("preemption")
    if isinstance(preemption, Mapping) and preemption.get("enabled"):
        yield Permission("create", "", "pods/eviction")
    yield from _of_claims(release)
    tls = release.settings.get("tls")
    if isinstance(tls, Mapping) and tls.get("managed"):
        for verb in ("get", "patch"):
            yield Permission(verb, "", "secrets", release.secret, release.namespace)
        webhooks = "mutatingwebhookconfigurations"
        yield Permission("update", "admissionregistration.k8s.io", webhooks, release.name)


def _of_claims(release: Installation) -> Iterator[Permission]:
    group = "resource.k8s.io"
    if reads_claims(release):
        for verb in ("get", "list", "watch"):
            for plural in ("resourceclaims", "resourceslices", "deviceclasses"):
                yield Permission(verb, group, plural)
    if setting(release, "shadows"):
        own = release.namespace
        yield Permission("create", group, "resourceclaims", namespace=own)
        yield Permission("delete", group, "resourceclaims", namespace=own)
        yield Permission("update", group, "resourceclaims/status", namespace=own)
        yield Permission("update", group, "resourceclaims/binding")
