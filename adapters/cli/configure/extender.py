"""The extenders of a ``KubeSchedulerConfiguration`` that ask Dragoman, and what they need around.

Two entries ask, one for shares and one for plain resources, because an entry is ignorable as a
whole: pods with shares wait for Dragoman, pods with the plain resources of a device plugin do not.
A third one asks nothing. Sources: k8s.io/kubernetes 1.37 pkg/scheduler/extender.go makeTransport
(``enableHTTPS`` without an authority verifies nothing, so it is written with one only);
pkg/scheduler/apis/config/validation/validation.go validateExtenders (one extender that binds, a
resource under one extender only).
"""

from base64 import b64encode
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, cast
from urllib.parse import urlsplit

from adapters.cli.configure.document import DEFAULT_PROFILE, Configuration, Kind, is_number_of_nodes
from adapters.cli.configure.options import (
    NAMES,
    PLAIN,
    SHARES,
    ConfigureOptions,
    service_url,
)
from adapters.cli.input.source import InputError
from adapters.cli.input.yaml_text import Body, load, plain

PATH = "/extender"

_OURS = frozenset({"urlPrefix", "nodeCacheCapable", "ignorable", "managedResources"})
"""Fields of an entry that each run writes again; what the user chose in the others stays."""

_SHARES = frozenset(each.name for each in SHARES)
_ASKS = "filterVerb: filter\nprioritizeVerb: prioritize\npreemptVerb: preempt\n"
PROPOSES_NONE = (1, 38)
"""The version from which kube-scheduler asks an extender for victims also on nodes where it has
found none. Source: kubernetes/kubernetes#135486."""

FILTER_1_38 = "filter/1.38"
"""The verb whose answer says to such a scheduler on which nodes evictions may help. One up to 1.37
would try a pod again at once, and again, for each of them."""

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


def asking(own: Own) -> Body | None:
    """Return the entry by which the scheduler asks Dragoman; None where it does not."""
    return own.get(Role.SHARES, own.get(Role.PLAIN))


def _is_own(extender: Body) -> bool:
    """Whether it asks Dragoman."""
    url = extender.get("urlPrefix")
    return (
        isinstance(url, str) and urlsplit(url).path == PATH and bool(managed(extender) & {*NAMES})
    )


def _role(own: Body) -> Role:
    """Return what an entry that is ours is for."""
    if not any(str(key).endswith("Verb") for key in own):
        return Role.UNCOUNTED
    return Role.SHARES if managed(own) & _SHARES else Role.PLAIN


def managed(extender: Body) -> set[str]:
    """Return the resources by which the scheduler chooses the pods that it asks about."""
    return {str(row.get("name")) for row in _rows(extender)}


def _entries(url: str, left_out: str, *, asks: bool, counts: bool, binds: bool) -> dict[Role, Body]:
    """Return the entries that a configuration must have.

    The one for shares: no pod with a share is bound without Dragoman. The one that asks nothing:
    the scheduler does not look on nodes for its resources, which its own plugin counts. Source:
    k8s.io/kubernetes 1.37 pkg/scheduler/scheduler.go buildExtenders (NodeResourcesFit ignores the
    resource), pkg/scheduler/extender.go (an extender without a verb is not called). The one for
    resources of device plugins, which the scheduler can do without. It does not bind: a scheduler
    takes one extender that does, and the webhook for Bindings commits these pods.

    The url has the path; the rest is as for ``set_extenders``, and with ``counts`` the scheduler
    counts what nodes state, and so asks for victims.
    """
    own = [each for each in SHARES if left_out and each.name.startswith(left_out)]
    uncounted = [each for each in own if not each.countable]
    texts: dict[Role, str] = {}
    if asks:
        binding = "bindVerb: bind # the Binding writes the cards too, in one step\n"
        texts[Role.SHARES] = (
            f"{_ASKS}{binding if binds else ''}{_LIMITS}"
            "ignorable: false # the scheduler binds no pod with a share without Dragoman\n"
            "managedResources:"
            f"{' # the scheduler adds them up, unless ignored' if counts else ''}\n"
        ) + "".join(
            f"  - {{name: {each.name}"
            f"{'' if counts and each.countable else ', ignoredByScheduler: true'}}}\n"
            for each in SHARES
            if each not in own
        )
    if uncounted:
        texts[Role.UNCOUNTED] = (
            "managedResources: # the scheduler's own plugin counts them, and no node states them\n"
            + "".join(
                f"  - {{name: {each.name}, ignoredByScheduler: true}}\n" for each in uncounted
            )
        )
    if asks:
        texts[Role.PLAIN] = (
            f"{_ASKS}{_LIMITS}"
            "ignorable: true # while Dragoman is away these pods are scheduled without it\n"
            "managedResources: # the scheduler adds them up, because nodes state them\n"
        ) + "".join(f"  - {{name: {each.name}}}\n" for each in PLAIN)
    wanted: dict[Role, Body] = {}
    for role, text in texts.items():
        remark = " # not called, since it has no verb" if role is Role.UNCOUNTED else ""
        made, _ = load(f"urlPrefix: {url}{remark}\n{text}", str)
        wanted[role] = cast("Body", made)
    return wanted


def _set_authority(made: Body, options: ConfigureOptions) -> None:
    """Verify the service by the authority of the options, or as the user chose before."""
    if options.has_ca:
        authority = (
            {"caFile": options.ca_file}
            if options.ca_data is None
            else {"caData": b64encode(options.ca_data).decode()}
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
    """Return the managed resources of an extender; what is no mapping is left to the scheduler."""
    rows = extender.get("managedResources")
    return [row for row in (rows if isinstance(rows, list) else ()) if isinstance(row, Body)]


GROUP = "kubescheduler.config.k8s.io/"
EVERY_NODE = 100
EVERY_NODE_REASON = "else the scheduler passes only some nodes, perhaps none that fits"

KIND = Kind(
    "KubeSchedulerConfiguration",
    "KubeSchedulerConfiguration",
    lambda body: body.get("kind") == "KubeSchedulerConfiguration",
    "give the file that the scheduler's --config names, or the ConfigMap that has it; a scheduler"
    " without such a file, as kubeadm starts it, takes what --new prints",
)


def profiles(found: Configuration) -> list[Body]:
    """Return the profiles; none where the scheduler has its one by default.

    Raises:
        InputError: the configuration is of another version, or a profile is no mapping.
    """
    version = found.body.get("apiVersion")
    if not isinstance(version, str) or not version.startswith(GROUP):
        raise _bad(found, "apiVersion", version, f"must be {GROUP}v1")
    return _mappings(found, "profiles")


def plugin_lists(found: Configuration) -> Iterator[tuple[tuple[str, ...], list[Any]]]:
    """Return the field and the content of each list of enabled plugins, in all profiles."""
    for profile in profiles(found):
        points = profile.get("plugins")
        for point, plugins in points.items() if isinstance(points, dict) else ():
            enabled = plugins.get("enabled") if isinstance(plugins, dict) else None
            if isinstance(enabled, list):
                yield ("profiles", name_of(profile), "plugins", point, "enabled"), enabled


def name_of(profile: Body) -> str:
    """Return the name by which pods choose a profile."""
    return str(profile.get("schedulerName") or DEFAULT_PROFILE)


def asks_for_victims(found: Configuration) -> bool:
    """Whether the scheduler counts shares itself, and so asks for pods to evict."""
    own = own_extenders(found).get(Role.SHARES)
    return own is not None and any(
        row.get("name") == NAMES[0] and not row.get("ignoredByScheduler") for row in _rows(own)
    )


def own_extenders(found: Configuration) -> Own:
    """Return the extenders that ask Dragoman, the first of each role.

    Raises:
        InputError: a field has another shape than it must have.
    """
    own: dict[Role, Body] = {}
    for each in _mappings(found, "extenders"):
        if _is_own(each):
            own.setdefault(_role(each), each)
    return own


def own_url(found: Configuration) -> str | None:
    """Return the address at which the scheduler asks Dragoman; None where it does not.

    Raises:
        InputError: a field has another shape than it must have.
    """
    own = asking(own_extenders(found))
    return None if own is None else str(own["urlPrefix"])


def set_common(found: Configuration, options: ConfigureOptions, *, asks: bool = True) -> None:
    """Set what is outside of the extenders: the profile's name, the kubeconfig, the nodes asked.

    With ``asks`` the scheduler asks Dragoman about some pods.

    Raises:
        InputError: a field has another shape than it must have, a name is given to several
            profiles, or an option is for another scheduler.
    """
    rows = profiles(found)
    if options.plain_pods is not None:
        raise InputError(
            "--plain-pods",
            "is for vc-scheduler; this scheduler has an extender of its own for such pods, and"
            " does not wait for it; leave the option out",
        )
    if options.scheduler_name is not None:
        if len(rows) != 1:
            problem = "is for a configuration with one profile; name the profiles in the file"
            raise InputError(
                "--scheduler-name", f"{found.name} has {len(rows)} profiles, and it {problem}"
            )
        found.record.set(found.body, ("profiles", 0, "schedulerName"), options.scheduler_name)
    if options.kubeconfig is not None:
        connection = found.body.get("clientConnection")
        if not isinstance(connection, dict | None):
            raise _bad(found, "clientConnection", connection, "must be a mapping with kubeconfig")
        found.record.set(found.body, ("clientConnection", "kubeconfig"), options.kubeconfig)
    if not asks:
        found.record.rewind(found.body, is_number_of_nodes)
        return
    absent = "percentageOfNodesToScore" not in found.body
    found.record.set(found.body, ("percentageOfNodesToScore",), EVERY_NODE)
    if absent:
        found.body.yaml_add_eol_comment(EVERY_NODE_REASON, "percentageOfNodesToScore")
    for row in rows:
        if row.get("percentageOfNodesToScore") is not None:
            field = ("profiles", name_of(row), "percentageOfNodesToScore")
            found.record.set(found.body, field, EVERY_NODE)


def set_extenders(
    found: Configuration,
    options: ConfigureOptions,
    *,
    binds: bool,
    asks: bool = True,
    left_out: str = "",
) -> None:
    """Add the extenders, or bring those that are there up to date.

    What the user chose in them stays: weight, timeout, further resources and fields, and the
    address and its authorities where no option gives them. Where there is one extender for all
    resources, as earlier versions wrote it, its choices count for both.

    Args:
        found: changed.
        options: of the user.
        binds: whether the scheduler has Dragoman bind.
        asks: whether it asks Dragoman about any pod.
        left_out: the family of resources, such as ``koordinator.sh/``, that the scheduler's own
            plugin serves, so that it does not ask about them; empty for none.

    Raises:
        InputError: an option does not fit, or another extender excludes these.
    """
    own = own_extenders(found)
    _refuse_rivals(found, binds=binds)
    present_url = own_url(found)
    if present_url is None and Role.UNCOUNTED in own:
        present_url = own[Role.UNCOUNTED]["urlPrefix"]
    url = service_url(options, PATH, present_url)
    if options.has_ca and not url.startswith("https:"):
        raise InputError(
            "--ca-file, --ca-data", f"need an address with https, and it is {url}; give --url"
        )
    counts_shares = options.preemption
    if counts_shares is None:
        counts_shares = asks_for_victims(found)
    wanted = _entries(url, left_out, asks=asks, counts=counts_shares, binds=binds)
    for each, made in wanted.items():
        present = own.get(each)
        chosen = present
        if chosen is None and each is not Role.UNCOUNTED:
            chosen = asking(own)
        for key, value in () if chosen is None else chosen.items():
            if key not in _OURS and not str(key).endswith("Verb"):
                made[key] = value
        if present is not None:
            theirs = (row for row in _rows(present) if row.get("name") not in NAMES)
            made["managedResources"].extend(theirs)
        if each is not Role.UNCOUNTED:
            _set_authority(made, options)
            proposes_none = chosen is not None and chosen.get("filterVerb") == FILTER_1_38
            if options.version is not None:
                proposes_none = options.version >= PROPOSES_NONE
            if proposes_none:
                made["filterVerb"] = FILTER_1_38
    _place(found, wanted)


def remove_extenders(found: Configuration) -> bool:
    """Take the extenders out; whether there was one."""
    rows = _mappings(found, "extenders")
    own = [at for at, each in enumerate(rows) if _is_own(each)]
    for at in reversed(own):
        del rows[at]
    return bool(own)


def _refuse_rivals(found: Configuration, *, binds: bool) -> None:
    for index, extender in enumerate(_mappings(found, "extenders")):
        if _is_own(extender):
            continue
        if binds and extender.get("bindVerb"):
            raise _bad(
                found,
                f"extenders[{index}].bindVerb",
                extender["bindVerb"],
                "excludes Dragoman, since a scheduler takes one extender that binds; remove this"
                f" extender ({extender.get('urlPrefix')}) or its bindVerb",
            )
        if common := sorted(managed(extender) & {*NAMES}):
            raise _bad(
                found,
                f"extenders[{index}].managedResources",
                ", ".join(common),
                "excludes Dragoman, since a scheduler takes a resource under one extender only;"
                f" remove this extender ({extender.get('urlPrefix')}) or the resource",
            )


def _place(found: Configuration, wanted: Mapping[Role, Body]) -> None:
    """Put each where the present one of its role is, else beside its neighbour, else at the end.

    An entry that says the same already stays, with its comments.
    """
    if not found.body.get("extenders"):
        found.record.set(found.body, ("extenders",), [])
    rows: list[Body] = found.body["extenders"]
    own = [(at, _role(row)) for at, row in enumerate(rows) if _is_own(row)]
    first = {each: at for at, each in reversed(own)}
    for at, each in reversed(own):
        made = wanted.get(each)
        if made is None or at != first[each]:
            del rows[at]
        elif plain(rows[at]) != plain(made):
            rows[at] = made
    roles = list(wanted)
    for index, each in enumerate(roles):
        where = {_role(row): at for at, row in enumerate(rows) if _is_own(row)}
        if each not in where:
            after = [where[other] for other in roles[index + 1 :] if other in where]
            at = where[roles[index - 1]] + 1 if index else min(after, default=len(rows))
            rows.insert(at, wanted[each])


def _mappings(found: Configuration, key: str) -> list[Body]:
    value = found.body.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise _bad(found, key, value, "must be a list")
    for index, row in enumerate(value):
        if not isinstance(row, dict):
            raise _bad(found, f"{key}[{index}]", row, "must be a mapping")
    return value


def _bad(found: Configuration, field: str, value: object, problem: str) -> InputError:
    return InputError(found.name, f"{field}: {plain(value)!r} {problem}")
