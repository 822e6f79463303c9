"""What an installation that reads ResourceClaims needs of the cluster."""

from collections.abc import Iterator, Mapping

from adapters.cli.doctor.finding import CheckResult, error, ok, warning
from adapters.cli.doctor.observed import Installation, Observed

CHECK = "claims"

OWNED = ("volcano.sh/", "koordinator.sh/", "metax-tech.com/")
"""Prefixes of resources with which pods of a dialect request shares."""


def reads_claims(release: Installation) -> bool:
    """Whether an installation reads claims, by its settings."""
    return bool(setting(release, "claims"))


def setting(release: Installation, name: str) -> object:
    """A setting below ``dra``; None where it is not stated."""
    found = release.settings.get("dra")
    return found.get(name) if isinstance(found, Mapping) else None


def check(seen: Observed) -> Iterator[CheckResult]:
    """The API of claims, and classes that take the place of a dialect's resources."""
    if not any(map(reads_claims, seen.releases())) or "deviceclasses" in seen.unreadable:
        return
    if seen.device_classes is None:
        yield error(
            CHECK,
            "dra.enabled is set, and the API server does not serve resource.k8s.io/v1: no"
            " ResourceClaim is seen",
            "use Kubernetes 1.34 or later, and remove the API from --runtime-config where it is"
            " turned off; or set dra.enabled=false",
        )
        return
    yield ok(CHECK, "the API server serves resource.k8s.io/v1")
    for each in seen.device_classes:
        name = each.spec.extended_resource_name or ""
        if name.startswith(OWNED):
            yield warning(
                CHECK,
                f"DeviceClass {each.metadata.name} answers requests of {name}: a pod that requests"
                " it gets a whole device, whatever memory it requests",
                f"remove extendedResourceName from the class: pods of the dialect request {name}",
            )
