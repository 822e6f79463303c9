"""The entries of ``extenders`` that are ours, one by one: for shares, for plain resources.

Two ask, because an entry is ignorable as a whole: pods with shares wait for Dragoman, pods with
the plain resources of a device plugin do not. A third one asks nothing. Source:
k8s.io/kubernetes 1.37 pkg/scheduler/extender.go makeTransport (``enableHTTPS`` without an authority
verifies nothing, so it is written with one only).
"""

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import cast
from urllib.parse import urlsplit

from adapters.cli.configure.options import ConfigureOptions, base64_text
from adapters.cli.configure.resources import NAMES, PLAIN, SHARES, ManagedResource
from adapters.cli.input.yaml_text import Body, load

PATH = "/extender"

_SHARES = frozenset(each.name for each in SHARES)
_ASKS = "filterVerb: filter\nprioritizeVerb: prioritize\npreemptVerb: preempt\n"
_LIMITS = (
    "weight: 5\n"
    "nodeCacheCapable: true # names of nodes, not whole nodes\n"
    "httpTimeout: 5s\n"
)  # fmt: skip


class Role(Enum):
    """What one entry of ours is for."""

    SHARES = "shares"
    """Resources of shares; earlier versions had the plain ones in it too."""

    UNCOUNTED = "uncounted"
    """Resources that the scheduler must not look for on nodes, and does not ask about."""

    PLAIN = "plain"
    """Only resources of device plugins."""


Own = Mapping[Role, Body]
"""The entries of a configuration that are ours, the first of each role."""


def own_entries(extenders: Iterable[Body]) -> Own:
    """The first entry of each role."""
    found: dict[Role, Body] = {}
    for each in extenders:
        if is_own(each):
            found.setdefault(role(each), each)
    return found


def asking(own: Own) -> Body | None:
    """The entry by which the scheduler asks Dragoman; None where it does not."""
    return own.get(Role.SHARES, own.get(Role.PLAIN))


def is_own(extender: Body) -> bool:
    """Whether it asks Dragoman."""
    url = extender.get("urlPrefix")
    return (
        isinstance(url, str) and urlsplit(url).path == PATH and bool(managed(extender) & {*NAMES})
    )


def role(own: Body) -> Role:
    """What an entry that is ours is for."""
    if not any(str(key).endswith("Verb") for key in own):
        return Role.UNCOUNTED
    return Role.SHARES if managed(own) & _SHARES else Role.PLAIN


def counts(extender: Body, resource: str) -> bool:
    """Whether the scheduler itself counts a resource of this extender."""
    return any(
        row.get("name") == resource and not row.get("ignoredByScheduler") for row in _rows(extender)
    )


def managed(extender: Body) -> set[str]:
    """The names of the resources by which the scheduler chooses the pods that it asks about."""
    return {str(row.get("name")) for row in _rows(extender)}


def share_entry(
    url: str, resources: Iterable[ManagedResource], *, counts: bool, binds: bool
) -> Body:
    """The entry for shares, without which no pod with such a share is bound.

    Args:
        url: with the path.
        resources: that it manages.
        counts: whether the scheduler counts what nodes state, and so asks for victims.
        binds: whether it has Dragoman bind.
    """
    return _loaded(
        f"urlPrefix: {url}\n"
        + _ASKS
        + ("bindVerb: bind # the Binding writes the cards too, in one step\n" if binds else "")
        + _LIMITS
        + "ignorable: false # the scheduler binds no pod with a share without Dragoman\n"
        "managedResources:"
        + (" # the scheduler adds them up, unless ignored\n" if counts else "\n")
        + "".join(
            f"  - {{name: {each.name}"
            + ("" if counts and each.countable else ", ignoredByScheduler: true")
            + "}\n"
            for each in resources
        )
    )


def plain_entry(url: str) -> Body:
    """The entry for the resources of device plugins, which the scheduler can do without.

    It does not bind: a scheduler takes one extender that does, and the webhook for Bindings
    commits these pods.

    Args:
        url: with the path.
    """
    return _loaded(
        f"urlPrefix: {url}\n"
        + _ASKS
        + _LIMITS
        + "ignorable: true # while Dragoman is away these pods are scheduled without it\n"
        "managedResources: # the scheduler adds them up, because nodes state them\n"
        + "".join(f"  - {{name: {each.name}}}\n" for each in PLAIN)
    )


def uncounted_entry(url: str, resources: Iterable[ManagedResource]) -> Body:
    """The entry that asks nothing: the scheduler does not look for its resources on nodes.

    Source: k8s.io/kubernetes 1.37 pkg/scheduler/scheduler.go buildExtenders (NodeResourcesFit
    ignores the resource), pkg/scheduler/extender.go (an extender without a verb is not called).

    Args:
        url: with the path.
        resources: that no component states by default.
    """
    return _loaded(
        f"urlPrefix: {url} # not called, since it has no verb\n"
        "managedResources: # the scheduler's own plugin counts them, and no node states them\n"
        + "".join(f"  - {{name: {each.name}, ignoredByScheduler: true}}\n" for each in resources)
    )


def keep_choices(own: Body, made: Body) -> None:
    """Take over what the user chose in the present entry, but for its resources."""
    ours = {"urlPrefix", "nodeCacheCapable", "ignorable", "managedResources"}
    for key, value in own.items():
        if key not in ours and not str(key).endswith("Verb"):
            made[key] = value


def keep_resources(own: Body, made: Body) -> None:
    """Take over the resources that the user added to the present entry."""
    made["managedResources"].extend(row for row in _rows(own) if row.get("name") not in NAMES)


def set_authority(made: Body, options: ConfigureOptions) -> None:
    """Verify the service by the authority of the options, or as the user chose before."""
    if options.has_ca:
        authority = (
            {"caFile": options.ca_file}
            if options.ca_data is None
            else {"caData": base64_text(options.ca_data)}
        )
        others = {
            k: v for k, v in (made.get("tlsConfig") or {}).items() if k not in {"caFile", "caData"}
        }
        made["enableHTTPS"] = True
        made["tlsConfig"] = others | authority
    elif not str(made["urlPrefix"]).startswith("https:"):
        made.pop("enableHTTPS", None)
        made.pop("tlsConfig", None)


def _rows(extender: Body) -> list[Body]:
    """The managed resources of an extender; what is no mapping is left to the scheduler."""
    rows = extender.get("managedResources")
    return [row for row in (rows if isinstance(rows, list) else ()) if isinstance(row, Body)]


def _loaded(text: str) -> Body:
    made, _ = load(text, str)
    return cast("Body", made)
