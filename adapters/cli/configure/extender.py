"""The extender of a ``KubeSchedulerConfiguration`` that asks Dragoman.

Source of what kube-scheduler accepts: k8s.io/kubernetes 1.37
pkg/scheduler/apis/config/validation/validation.go validateExtenders (one extender that binds, a
resource under one extender only) and pkg/scheduler/extender.go makeTransport (``enableHTTPS``
without an authority verifies nothing, so it is written with one only).
"""

from collections.abc import Iterator
from typing import Any, cast
from urllib.parse import urlsplit

from adapters.cli.configure.document import Configuration, Kind
from adapters.cli.configure.options import ConfigureOptions, base64_text, service_url
from adapters.cli.configure.record import DEFAULT_PROFILE
from adapters.cli.configure.resources import NAMES, RESOURCES
from adapters.cli.input.source import InputError
from adapters.cli.yaml_text import Body, load, plain

PATH = "/extender"
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
    """By which pods name a profile."""
    return str(profile.get("schedulerName") or DEFAULT_PROFILE)


def asks_for_victims(found: Configuration) -> bool:
    """Whether the scheduler counts resources itself, and so asks for pods to evict."""
    own = own_extender(found)
    rows = _rows(own) if own is not None else []
    return any(row.get("name") == NAMES[0] and not row.get("ignoredByScheduler") for row in rows)


def own_extender(found: Configuration) -> Body | None:
    """The extender that asks Dragoman; None where there is none."""
    return next((each for each in _mappings(found, "extenders") if _is_own(each)), None)


def own_url(found: Configuration) -> str | None:
    """The address at which the scheduler asks Dragoman; None where it does not.

    Raises:
        InputError: a field has another shape than it must have.
    """
    own = own_extender(found)
    return None if own is None else str(own["urlPrefix"])


def set_common(found: Configuration, options: ConfigureOptions) -> None:
    """Set what is outside of the extender: the profile's name, the kubeconfig, the nodes asked.

    Raises:
        InputError: a field has another shape than it must have, or a name is given to several
            profiles.
    """
    rows = profiles(found)
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
    absent = "percentageOfNodesToScore" not in found.body
    found.record.set(found.body, ("percentageOfNodesToScore",), EVERY_NODE)
    if absent:
        found.body.yaml_add_eol_comment(EVERY_NODE_REASON, "percentageOfNodesToScore")
    for row in rows:
        if row.get("percentageOfNodesToScore") is not None:
            name = row.get("schedulerName") or "default-scheduler"
            found.record.set(found.body, ("profiles", name, "percentageOfNodesToScore"), EVERY_NODE)


def set_extender(found: Configuration, options: ConfigureOptions, *, binds: bool) -> None:
    """Add the extender, or bring the one that is there up to date.

    What the user chose in it stays: weight, timeout, further resources and fields, and the address
    and its authorities where no option gives them.

    Raises:
        InputError: an option does not fit, or another extender excludes this one.
    """
    own = own_extender(found)
    _refuse_rivals(found, binds=binds)
    url = service_url(options, PATH, own["urlPrefix"] if own is not None else None)
    if options.has_ca and not url.startswith("https:"):
        raise InputError(
            "--ca-file, --ca-data", f"need an address with https, and it is {url}; give --url"
        )
    counts = options.preemption
    if counts is None:
        counts = asks_for_victims(found)
    made = _entry(url, counts=counts, binds=binds)
    if own is not None:
        _keep(own, made)
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
    elif not url.startswith("https:"):
        made.pop("enableHTTPS", None)
        made.pop("tlsConfig", None)
    _place(found, own, made)


def remove_extender(found: Configuration) -> bool:
    """Take the extender out; whether there was one."""
    own = own_extender(found)
    if own is not None:
        del found.body["extenders"][_mappings(found, "extenders").index(own)]
    return own is not None


def _is_own(extender: Body) -> bool:
    url = extender.get("urlPrefix")
    return (
        isinstance(url, str) and urlsplit(url).path == PATH and bool(_managed(extender) & {*NAMES})
    )


def _managed(extender: Body) -> set[str]:
    return {str(row.get("name")) for row in _rows(extender)}


def _rows(extender: Body) -> list[Body]:
    """The managed resources of an extender; what is no mapping is left to the scheduler."""
    rows = extender.get("managedResources")
    return [row for row in (rows if isinstance(rows, list) else ()) if isinstance(row, Body)]


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
        if common := sorted(_managed(extender) & {*NAMES}):
            raise _bad(
                found,
                f"extenders[{index}].managedResources",
                ", ".join(common),
                "excludes Dragoman, since a scheduler takes a resource under one extender only;"
                f" remove this extender ({extender.get('urlPrefix')}) or the resource",
            )


def _entry(url: str, *, counts: bool, binds: bool) -> Body:
    managed = "".join(
        f"  - {{name: {each.name}"
        + ("" if counts and each.countable else ", ignoredByScheduler: true")
        + "}\n"
        for each in RESOURCES
    )
    text = (
        f"urlPrefix: {url}\n"
        "filterVerb: filter\n"
        "prioritizeVerb: prioritize\n"
        "preemptVerb: preempt\n"
        + ("bindVerb: bind # the Binding writes the cards too, in one step\n" if binds else "")
        + "weight: 5\n"
        "nodeCacheCapable: true # names of nodes, not whole nodes\n"
        "httpTimeout: 5s\n"
        "ignorable: false # the scheduler binds no pod with a share without Dragoman\n"
        "managedResources:"
        + (" # the scheduler adds them up, unless ignored\n" if counts else "\n")
        + managed
    )
    made, _ = load(text, str)
    return cast("Body", made)


def _keep(own: Body, made: Body) -> None:
    """Take over what the user chose in the present entry."""
    ours = {"urlPrefix", "nodeCacheCapable", "ignorable", "managedResources"}
    for key, value in own.items():
        if key not in ours and not str(key).endswith("Verb"):
            made[key] = value
    for row in _rows(own):
        if row.get("name") not in NAMES:
            made["managedResources"].append(row)


def _place(found: Configuration, own: Body | None, made: Body) -> None:
    if own is not None and plain(own) == plain(made):
        return
    if own is not None:
        found.body["extenders"][_mappings(found, "extenders").index(own)] = made
        return
    if not found.body.get("extenders"):
        found.record.set(found.body, ("extenders",), [])
    found.body["extenders"].append(made)


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
