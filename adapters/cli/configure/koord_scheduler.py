"""koord-scheduler: extenders as kube-scheduler's, and DeviceShare out of the profiles.

DeviceShare allocates the same cards from a cache of its own. In native mode it stays, and the
webhook decides in the end; then koord-scheduler binds, not an extender, and asks Dragoman about
the other dialects alone.
"""

from adapters.cli.configure import extender
from adapters.cli.configure.document import Configuration
from adapters.cli.configure.entries import Role, managed
from adapters.cli.configure.mode import Asked, SchedulerMode
from adapters.cli.configure.native import MIRRORS, choose_asked, is_alone
from adapters.cli.configure.options import ConfigureOptions
from adapters.cli.input.source import InputError
from adapters.cli.input.yaml_text import Body

KIND = extender.KIND
PLUGIN = "DeviceShare"
PREEMPTION = "DefaultPreemption"
GANGS = "Coscheduling"
FAMILY = "koordinator.sh/"


def add(found: Configuration, options: ConfigureOptions) -> list[str]:
    """Add what Dragoman needs, and remove DeviceShare unless it stays; notes for the user.

    Raises:
        InputError: the configuration or an option does not allow it.
    """
    own = extender.own_extenders(found).get(Role.SHARES)
    chosen = _chosen(options)
    if chosen is None:
        keep = is_alone(found) if own is None else not own.get("bindVerb")
    else:
        keep = chosen is SchedulerMode.NATIVE
    notes = found.record.rewind(found.body)
    asked = choose_asked(found, options, native=keep, present=_present(own))
    asks, left_out = asked is not Asked.NONE, "" if asked is Asked.ALL else FAMILY
    extender.set_common(found, options, asks=asks)
    extender.set_extenders(found, options, asks=asks, binds=not keep, left_out=left_out)
    if keep and not _has_plugin(found):
        raise InputError(
            found.name,
            f"--mode native: no profile enables {PLUGIN}; enable it, or give --mode extender",
        )
    if keep and asked is not Asked.ALL:
        notes.append(MIRRORS.format(plugin=PLUGIN))
    if not keep:
        for field, enabled in extender.plugin_lists(found):
            while _is_in(enabled):
                at = [_is_plugin(each) for each in enabled].index(True)
                found.record.remove(enabled, field, at)
    if extender.asks_for_victims(found):
        _ask_for_victims(found)
    return notes


def _present(own: Body | None) -> Asked:
    """What an earlier run in native mode wrote; earlier versions asked about all pods there."""
    if own is None or own.get("bindVerb"):
        return Asked.OTHERS
    return Asked.ALL if any(name.startswith(FAMILY) for name in managed(own)) else Asked.OTHERS


def _chosen(options: ConfigureOptions) -> SchedulerMode | None:
    """The mode that the options ask for; None for the one that the file has."""
    keep = options.keep_deviceshare
    if keep is None:
        return options.mode
    by_flag = SchedulerMode.NATIVE if keep else SchedulerMode.EXTENDER
    if options.mode not in (None, by_flag):
        flag = "--keep-deviceshare" if keep else "--no-keep-deviceshare"
        raise InputError(flag, f"means --mode {by_flag.value}; leave one of the two out")
    return by_flag


def remove(found: Configuration) -> list[str]:
    """Take Dragoman out again; notes for the user."""
    was_there = extender.remove_extenders(found)
    problems = found.record.undo(found.body)
    if was_there and not problems and not _has_plugin(found):
        problems.append(
            f"{found.name}: no profile enables {PLUGIN}, and the file does not say whether one"
            " did; enable it by hand if Koordinator is to allocate cards again"
        )
    return problems


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
        for plugin in _plugin_arguments(profile):
            if plugin["name"] == GANGS and plugin["args"].get("enablePreemption"):
                name = extender.name_of(profile)
                field = ("profiles", name, "pluginConfig", GANGS, "args", "enablePreemption")
                found.record.set(found.body, field, value=False)


def _plugin_arguments(profile: Body) -> list[Body]:
    """The rows of pluginConfig that have a name and arguments."""
    rows = profile.get("pluginConfig")
    return [
        row
        for row in (rows if isinstance(rows, list) else ())
        if isinstance(row, Body) and "name" in row and isinstance(row.get("args"), dict)
    ]


def _has_plugin(found: Configuration) -> bool:
    return any(_is_in(enabled) for _, enabled in extender.plugin_lists(found))


def _is_in(enabled: list[object]) -> bool:
    return any(_is_plugin(each) for each in enabled)


def _is_plugin(row: object) -> bool:
    return isinstance(row, dict) and row.get("name") == PLUGIN
