"""vc-scheduler: the plugin ``extender`` in the first tier, and ``deviceshare`` out or in.

In a later tier Volcano does not ask the plugin which pods it may evict. deviceshare allocates the
same cards from a cache of its own; in native mode it stays, or is added, and the webhook decides in
the end. Source of the arguments: volcano.sh/volcano 1.14.1
pkg/scheduler/plugins/extender/extender.go; ``managedResources`` must be a list, or the scheduler
ends at its start. Of deviceshare: pkg/scheduler/plugins/deviceshare/deviceshare.go; the plugin
``predicates`` has it allocate (predicates.go, AllocateFunc).
"""

from collections.abc import Iterable, Mapping
from typing import Any, cast
from urllib.parse import urlsplit

from adapters.cli.configure.document import MIRRORS, Configuration, Kind, choose_asked
from adapters.cli.configure.options import (
    NAMES,
    PLAIN,
    RESOURCES,
    SHARES,
    Asked,
    ConfigureOptions,
    SchedulerMode,
    service_url,
)
from adapters.cli.input.source import InputError
from adapters.cli.input.yaml_text import Body, load, plain

PATH = "/volcano"
PLUGIN = "extender"
DEVICES = "deviceshare"
ALLOCATES = "predicates"
VGPU = "deviceshare.VGPUEnable"
RIVALS = ("deviceshare.GPUSharingEnable", "deviceshare.GPUNumberEnable")
FAMILY = "volcano.sh/"
MANAGED = "extender.managedResources"

KIND = Kind(
    "Volcano scheduler configuration",
    "tiers",
    lambda body: "tiers" in body and "kind" not in body,
    "give volcano-scheduler.conf, or the ConfigMap that has it (volcano-scheduler-configmap of"
    " Volcano's chart); --new prints Volcano's default with Dragoman in it",
)


def add(found: Configuration, options: ConfigureOptions) -> list[str]:
    """Add what Dragoman needs, and have it replace deviceshare unless that stays; notes.

    Raises:
        InputError: the configuration or an option does not allow it.
    """
    _refuse_options(options)
    notes = found.record.rewind(found.body)
    tiers = _tiers(found)
    own = _taken(found, tiers)
    managed = [] if own is None else _managed(own)
    asked = [name for name in managed if name in NAMES]
    if options.mode is not None:
        native = options.mode is SchedulerMode.NATIVE
    elif own is None:
        native = found.is_alone
    else:  # in native mode there is no extender for Volcano's dialect
        native = bool(asked) and not any(name.startswith(FAMILY) for name in asked)
    if native and options.ask is Asked.ALL:
        raise InputError(
            "--ask",
            "'all' is not for vc-scheduler: deviceshare and Dragoman would each reserve cards for"
            " Volcano's pods; give others or none, or --mode extender",
        )
    if choose_asked(found, options, native=native) is not Asked.NONE:
        asks_plain = options.plain_pods
        if asks_plain is None:
            asks_plain = not managed or any(each.name in managed for each in PLAIN)
        asking = RESOURCES if asks_plain else SHARES
        names = [each.name for each in asking if not (native and each.name.startswith(FAMILY))]
        url = None if own is None else _arguments(own).get("extender.urlPrefix")
        kept = {} if native else _kept(tiers)
        made = _plugin(service_url(options, PATH, url), names, own, kept, native=native)
        tiers[0].append(own if own is not None and plain(own) == plain(made) else made)
    if native:
        _share(found, tiers)
        return [*notes, MIRRORS.format(plugin=DEVICES)]
    for index, tier in enumerate(tiers):
        for at in reversed(range(len(tier))):
            if tier[at].get("name") == DEVICES:
                found.record.remove(tier, ("tiers", index, "plugins"), at)
    return notes


def own_url(found: Configuration) -> str | None:
    """Return the address at which the scheduler asks Dragoman; None where it does not.

    Raises:
        InputError: a field has another shape than it must have.
    """
    plugins = (plugin for tier in _tiers(found) for plugin in tier)
    own = (each for each in plugins if each.get("name") == PLUGIN and _is_own(each))
    return next((str(_arguments(each)["extender.urlPrefix"]) for each in own), None)


def remove(found: Configuration) -> list[str]:
    """Take Dragoman out again; notes for the user."""
    for tier in _tiers(found):
        for plugin in [each for each in tier if each.get("name") == PLUGIN and _is_own(each)]:
            tier.remove(plugin)
    return found.record.undo(found.body)


def _refuse_options(options: ConfigureOptions) -> None:
    same_flag = "vc-scheduler takes it as a flag of the same name"
    keeps = "give --mode native or extender instead"
    for flag, value, problem in (
        ("--kubeconfig", options.kubeconfig, same_flag),
        ("--scheduler-name", options.scheduler_name, same_flag),
        ("--preemption", options.preemption, "Volcano asks for victims in preempt and reclaim"),
        ("--keep-deviceshare", options.keep_deviceshare, keeps),
        ("--kubernetes-version", options.version, "it is for kube-scheduler"),
    ):
        if value is not None:
            raise InputError(flag, f"is not for vc-scheduler: {problem}; leave it out")
    if options.has_ca or (options.url or "").startswith("https:"):
        raise InputError(
            "--url",
            "Volcano's plugin cannot verify TLS; give an address with http, such as the sidecar's"
            " http://127.0.0.1:9595",
        )


def _taken(found: Configuration, tiers: list[list[Any]]) -> Body | None:
    """Return the plugin that asks Dragoman, out of its tier; None where there is none.

    Raises:
        InputError: the plugin asks another extender.
    """
    own: Body | None = None
    for tier in tiers:
        for plugin in [each for each in tier if each.get("name") == PLUGIN]:
            if not _is_own(plugin):
                url = plain(_arguments(plugin).get("extender.urlPrefix"))
                raise InputError(
                    found.name,
                    f"tiers: a plugin {PLUGIN} calls {url!r}, and Volcano takes one plugin of a"
                    " name; remove it",
                )
            own = plugin
            tier.remove(plugin)
    return own


def _share(found: Configuration, tiers: list[list[Any]]) -> None:
    """Keep deviceshare, or add it beside the plugin that has it allocate, and let it share cards.

    Raises:
        InputError: no plugin would have it allocate, or it shares cards in another way.
    """
    names = [[plugin.get("name") for plugin in tier] for tier in tiers]
    beside = next((at for at, tier in enumerate(names) if ALLOCATES in tier), None)
    if beside is None:
        raise InputError(
            found.name,
            f"tiers: --mode native needs the plugin {ALLOCATES}, in which Volcano has {DEVICES}"
            " allocate; add it, or give --mode extender",
        )
    at = next((at for at, tier in enumerate(names) if DEVICES in tier), None)
    if at is None:
        at = beside
        added, _ = load(f"name: {DEVICES} # Volcano's own plugin; the webhook decides\n", str)
        found.record.insert(tiers[at], ("tiers", at, "plugins"), added)
    (plugin, *_) = (each for each in tiers[at] if each.get("name") == DEVICES)
    for rival in RIVALS:
        if _arguments(plugin).get(rival) is True:
            raise InputError(
                found.name,
                f"tiers: {rival}: True excludes {VGPU}, and Volcano ends at its start with both;"
                " remove it, or give --mode extender",
            )
    field = ("tiers", at, "plugins", DEVICES, "arguments")
    if not isinstance(plugin.get("arguments"), dict):
        found.record.set(found.body, field, {})
    found.record.set(found.body, (*field, VGPU), value=True)


def _tiers(found: Configuration) -> list[list[Any]]:
    """Return the plugins of each tier, by tier."""
    rows = found.body.get("tiers")
    if not isinstance(rows, list) or not rows:
        raise InputError(found.name, f"tiers: {plain(rows)!r} must be a list of tiers with plugins")
    for index, row in enumerate(rows):
        plugins = row.get("plugins") if isinstance(row, dict) else None
        if not isinstance(plugins, list) or not all(isinstance(each, dict) for each in plugins):
            problem = "must be a list of mappings with a name"
            raise InputError(found.name, f"tiers[{index}].plugins: {plain(plugins)!r} {problem}")
    return [row["plugins"] for row in rows]


def _arguments(plugin: Body) -> Mapping[str, Any]:
    found = plugin.get("arguments")
    return found if isinstance(found, dict) else {}


def _is_own(plugin: Body) -> bool:
    url = _arguments(plugin).get("extender.urlPrefix")
    return isinstance(url, str) and urlsplit(url).path == PATH


def _managed(plugin: Body) -> list[Any]:
    rows = _arguments(plugin).get(MANAGED)
    return rows if isinstance(rows, list) else []


def _plugin(
    url: str, names: Iterable[str], own: Body | None, kept: Mapping[str, Any], *, native: bool
) -> Body:
    """Return the plugin, with what the user chose in the present one and in deviceshare."""
    text = (
        "name: extender # in the first tier, or Volcano does not call it for victims\n"
        "arguments:\n"
        f"  extender.urlPrefix: {url}\n"
        "  extender.httpTimeout: 5s\n"
        "  extender.ignorable: false # the scheduler binds no pod with a share without Dragoman\n"
        "  extender.predicateVerb: predicate\n"
        "  extender.prioritizeVerb: prioritize\n"
        "  extender.preemptableVerb: preemptable\n"
        "  extender.reclaimableVerb: reclaimable\n"
        "  extender.allocateFuncVerb: allocate\n"
        "  extender.deallocateFuncVerb: deallocate\n"
        f"  {MANAGED}:\n" + "".join(f"  - {name}\n" for name in names)
    )
    made, _ = load(text, str)
    plugin = cast("Body", made)
    plugin["arguments"].update(kept)
    if own is None:
        return plugin
    plugin.update({key: own[key] for key in own if key not in {"name", "arguments"}})
    for key, value in own["arguments"].items():
        if key == MANAGED:
            plugin["arguments"][key].extend(name for name in _managed(own) if name not in NAMES)
        elif _is_of_devices(key):
            if not native:
                plugin["arguments"][key] = value
        elif key == "extender.httpTimeout" or key not in plugin["arguments"]:
            plugin["arguments"][key] = value
    return plugin


def _kept(tiers: list[list[Any]]) -> Mapping[str, Any]:
    """Return what deviceshare's arguments chose besides which kinds of cards it serves.

    Volcano's extender ignores them; the service reads them there where deviceshare is gone.
    """
    return {
        key: value
        for tier in tiers
        for plugin in tier
        if plugin.get("name") == DEVICES
        for key, value in _arguments(plugin).items()
        if _is_of_devices(key) and not key.endswith("Enable")
    }


def _is_of_devices(key: object) -> bool:
    return str(key).startswith(f"{DEVICES}.")  # an unquoted number is a key that is no text
