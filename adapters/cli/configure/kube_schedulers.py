"""kube-scheduler and koord-scheduler: the extenders, and the plugins of the profiles.

koord-scheduler's DeviceShare allocates the same cards from a cache of its own, so it is removed. In
native mode it stays, and the webhook decides in the end; then koord-scheduler binds, not an
extender, and asks Dragoman about the other dialects alone.
"""

from urllib.parse import urlsplit

from adapters.cli.configure import extender
from adapters.cli.configure.document import MIRRORS, Configuration, choose_asked
from adapters.cli.configure.extender import Role, managed
from adapters.cli.configure.options import Asked, ConfigureOptions, SchedulerMode
from adapters.cli.input.source import InputError
from adapters.cli.input.yaml_text import Body

PLUGIN = "DeviceShare"
PREEMPTION = "DefaultPreemption"
GANGS = "Coscheduling"
FAMILY = "koordinator.sh/"


def add_to_kube(found: Configuration, options: ConfigureOptions) -> list[str]:
    """Add what kube-scheduler needs, and return notes for the user.

    Raises:
        InputError: the configuration or an option does not allow it.
    """
    if options.keep_deviceshare is not None:
        raise InputError("--keep-deviceshare", "is only for koord-scheduler; leave it out")
    if options.mode is SchedulerMode.NATIVE:
        raise InputError(
            "--mode", "'native' is not for kube-scheduler, which has no device plugin; leave it out"
        )
    for field, enabled in extender.plugin_lists(found):
        if any(map(_is_device_share, enabled)):
            problem = "a plugin of Koordinator; use: dragoman configure koord-scheduler"
            raise InputError(found.name, f"{'.'.join(field)}: DeviceShare is {problem}")
    if options.ask is not None:
        raise InputError("--ask", "is for --mode native of other schedulers; leave it out")
    extender.set_common(found, options)
    extender.set_extenders(found, options, binds=True)
    host = urlsplit(extender.own_url(found) or "").hostname
    if host is not None and ".svc" in host:
        return [
            f"{host} is a name of the cluster's DNS. A kube-scheduler on the host's network, such"
            " as kubeadm's static pod, does not resolve it: give --url with the Service's cluster"
            " IP there"
        ]
    return []


def remove_from_kube(found: Configuration) -> list[str]:
    """Take Dragoman out of kube-scheduler's configuration, and return notes for the user."""
    extender.remove_extenders(found)
    return found.record.undo(found.body)


def add_to_koord(found: Configuration, options: ConfigureOptions) -> list[str]:
    """Add what koord-scheduler needs, and remove DeviceShare unless it stays.

    Returns:
        notes for the user.

    Raises:
        InputError: the configuration or an option does not allow it.
    """
    if options.version is not None:
        raise InputError("--kubernetes-version", "is only for kube-scheduler; leave it out")
    own = extender.own_extenders(found).get(Role.SHARES)
    mode = _mode(options)
    if mode is None:
        keep = found.is_alone if own is None else not own.get("bindVerb")
    else:
        keep = mode is SchedulerMode.NATIVE
    present = Asked.OTHERS
    if own is not None and not own.get("bindVerb"):
        # earlier versions asked about all pods in native mode
        asks_own = any(name.startswith(FAMILY) for name in managed(own))
        present = Asked.ALL if asks_own else Asked.OTHERS
    notes = found.record.rewind(found.body)
    asked = choose_asked(found, options, native=keep, present=present)
    asks, left_out = asked is not Asked.NONE, "" if asked is Asked.ALL else FAMILY
    extender.set_common(found, options, asks=asks)
    extender.set_extenders(found, options, asks=asks, binds=not keep, left_out=left_out)
    if keep and not _has_device_share(found):
        raise InputError(
            found.name,
            f"--mode native: no profile enables {PLUGIN}; enable it, or give --mode extender",
        )
    if keep and asked is not Asked.ALL:
        notes.append(MIRRORS.format(plugin=PLUGIN))
    if not keep:
        for field, enabled in extender.plugin_lists(found):
            while any(map(_is_device_share, enabled)):
                at = [_is_device_share(each) for each in enabled].index(True)
                found.record.remove(enabled, field, at)
    if extender.asks_for_victims(found):
        _ask_for_victims(found)
    return notes


def remove_from_koord(found: Configuration) -> list[str]:
    """Take Dragoman out of koord-scheduler's configuration, and return notes for the user."""
    was_there = extender.remove_extenders(found)
    problems = found.record.undo(found.body)
    if was_there and not problems and not _has_device_share(found):
        problems.append(
            f"{found.name}: no profile enables {PLUGIN}, and the file does not say whether one"
            " did; enable it by hand if Koordinator is to allocate cards again"
        )
    return problems


def _mode(options: ConfigureOptions) -> SchedulerMode | None:
    """Return the mode that the options ask for; None for the one that the file has."""
    keep = options.keep_deviceshare
    if keep is None:
        return options.mode
    by_flag = SchedulerMode.NATIVE if keep else SchedulerMode.EXTENDER
    if options.mode not in (None, by_flag):
        flag = "--keep-deviceshare" if keep else "--no-keep-deviceshare"
        raise InputError(flag, f"means --mode {by_flag.value}; leave one of the two out")
    return by_flag


def _ask_for_victims(found: Configuration) -> None:
    """Let kube-scheduler's own preemption work, which asks extenders; Coscheduling's does not.

    The chart has one of the two: DefaultPreemption where its enableJobPreemption is false.
    Source: koordinator-sh/charts versions/v1.8.0/templates/koord-scheduler-config.yaml
    """
    for field, enabled in extender.plugin_lists(found):
        names = {each.get("name") for each in enabled if isinstance(each, dict)}
        if field[3] == "postFilter" and PREEMPTION not in names:
            found.record.insert(enabled, field, {"name": PREEMPTION})
    for profile in extender.profiles(found):
        rows = profile.get("pluginConfig")
        for row in rows if isinstance(rows, list) else ():
            if not isinstance(row, Body) or row.get("name") != GANGS:
                continue
            arguments = row.get("args")
            if isinstance(arguments, dict) and arguments.get("enablePreemption"):
                name = extender.name_of(profile)
                field = ("profiles", name, "pluginConfig", GANGS, "args", "enablePreemption")
                found.record.set(found.body, field, value=False)


def _has_device_share(found: Configuration) -> bool:
    return any(
        _is_device_share(each) for _, enabled in extender.plugin_lists(found) for each in enabled
    )


def _is_device_share(row: object) -> bool:
    return isinstance(row, dict) and row.get("name") == PLUGIN
