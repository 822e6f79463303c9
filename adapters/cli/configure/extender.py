"""The extenders of a ``KubeSchedulerConfiguration`` that ask Dragoman, and what they need around.

Source of what kube-scheduler accepts: k8s.io/kubernetes 1.37
pkg/scheduler/apis/config/validation/validation.go validateExtenders (one extender that binds, a
resource under one extender only).
"""

from collections.abc import Iterator, Mapping
from typing import Any

from adapters.cli.configure.document import Configuration, Kind
from adapters.cli.configure.entries import (
    PATH,
    Own,
    Role,
    asking,
    counts,
    is_own,
    keep_choices,
    keep_resources,
    managed,
    own_entries,
    plain_entry,
    role,
    set_authority,
    share_entry,
    uncounted_entry,
)
from adapters.cli.configure.options import ConfigureOptions, service_url
from adapters.cli.configure.record import DEFAULT_PROFILE, is_number_of_nodes
from adapters.cli.configure.resources import NAMES, SHARES
from adapters.cli.input.source import InputError
from adapters.cli.input.yaml_text import Body, plain

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
    """The profiles; none where the scheduler has its one by default.

    Raises:
        InputError: the configuration is of another version, or a profile is no mapping.
    """
    version = found.body.get("apiVersion")
    if not isinstance(version, str) or not version.startswith(GROUP):
        raise _bad(found, "apiVersion", version, f"must be {GROUP}v1")
    return _mappings(found, "profiles")


def plugin_lists(found: Configuration) -> Iterator[tuple[tuple[str, ...], list[Any]]]:
    """The field and the content of each list of enabled plugins, in all profiles."""
    for profile in profiles(found):
        points = profile.get("plugins")
        for point, plugins in points.items() if isinstance(points, dict) else ():
            enabled = plugins.get("enabled") if isinstance(plugins, dict) else None
            if isinstance(enabled, list):
                yield ("profiles", name_of(profile), "plugins", point, "enabled"), enabled


def name_of(profile: Body) -> str:
    """The name by which pods choose a profile."""
    return str(profile.get("schedulerName") or DEFAULT_PROFILE)


def asks_for_victims(found: Configuration) -> bool:
    """Whether the scheduler counts shares itself, and so asks for pods to evict."""
    own = own_extenders(found).get(Role.SHARES)
    return own is not None and counts(own, NAMES[0])


def own_extenders(found: Configuration) -> Own:
    """The extenders that ask Dragoman.

    Raises:
        InputError: a field has another shape than it must have.
    """
    return own_entries(_mappings(found, "extenders"))


def own_url(found: Configuration) -> str | None:
    """The address at which the scheduler asks Dragoman; None where it does not.

    Raises:
        InputError: a field has another shape than it must have.
    """
    own = asking(own_extenders(found))
    return None if own is None else str(own["urlPrefix"])


def set_common(found: Configuration, options: ConfigureOptions, *, asks: bool = True) -> None:
    """Set what is outside of the extenders: the profile's name, the kubeconfig, the nodes asked.

    Args:
        found: changed.
        options: what the user asked for.
        asks: whether the scheduler asks Dragoman about any pod.

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
            name = row.get("schedulerName") or "default-scheduler"
            found.record.set(found.body, ("profiles", name, "percentageOfNodesToScore"), EVERY_NODE)


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
        options: what the user asked for.
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
    asked = [each for each in SHARES if not left_out or not each.is_of(left_out)]
    unstated = [each for each in SHARES if each not in asked and not each.countable]
    wanted: dict[Role, Body] = {}
    if asks:
        wanted[Role.SHARES] = share_entry(url, asked, counts=counts_shares, binds=binds)
    if unstated:
        wanted[Role.UNCOUNTED] = uncounted_entry(url, unstated)
    if asks:
        wanted[Role.PLAIN] = plain_entry(url)
    for each, made in wanted.items():
        present = own.get(each)
        chosen = present
        if chosen is None and each is not Role.UNCOUNTED:
            chosen = asking(own)
        if chosen is not None:
            keep_choices(chosen, made)
        if present is not None:
            keep_resources(present, made)
        if each is not Role.UNCOUNTED:
            set_authority(made, options)
    _place(found, wanted)


def remove_extenders(found: Configuration) -> bool:
    """Take the extenders out; whether there was one."""
    rows = _mappings(found, "extenders")
    own = [at for at, each in enumerate(rows) if is_own(each)]
    for at in reversed(own):
        del rows[at]
    return bool(own)


def _refuse_rivals(found: Configuration, *, binds: bool) -> None:
    for index, extender in enumerate(_mappings(found, "extenders")):
        if is_own(extender):
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
    own = [(at, role(row)) for at, row in enumerate(rows) if is_own(row)]
    first = {each: at for at, each in reversed(own)}
    for at, each in reversed(own):
        made = wanted.get(each)
        if made is None or at != first[each]:
            del rows[at]
        elif plain(rows[at]) != plain(made):
            rows[at] = made
    roles = list(wanted)
    for index, each in enumerate(roles):
        where = {role(row): at for at, row in enumerate(rows) if is_own(row)}
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
