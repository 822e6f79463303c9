"""``dragoman configure``: what it makes of a text."""

from collections.abc import Callable
from difflib import unified_diff
from importlib.resources import files
from typing import NamedTuple

from adapters.cli.configure import extender, kube_schedulers, vc_scheduler
from adapters.cli.configure.document import Configuration, Kind, read
from adapters.cli.configure.options import ConfigureOptions, Scheduler
from adapters.cli.input.source import Source


class _Adapter(NamedTuple):
    kind: Kind
    add: Callable[[Configuration, ConfigureOptions], list[str]]
    remove: Callable[[Configuration], list[str]]
    own_url: Callable[[Configuration], str | None]


_ADAPTERS = {
    Scheduler.KUBE: _Adapter(
        extender.KIND,
        kube_schedulers.add_to_kube,
        kube_schedulers.remove_from_kube,
        extender.own_url,
    ),
    Scheduler.KOORD: _Adapter(
        extender.KIND,
        kube_schedulers.add_to_koord,
        kube_schedulers.remove_from_koord,
        extender.own_url,
    ),
    Scheduler.VOLCANO: _Adapter(
        vc_scheduler.KIND, vc_scheduler.add, vc_scheduler.remove, vc_scheduler.own_url
    ),
}


class ConfigureResult(NamedTuple):
    """What one run made.

    Attributes:
        before: the text, in the layout of ``after``, so that a difference shows only changes.
        after: the text with the changes.
        notes: for the user.
    """

    before: str
    after: str
    notes: list[str]


def default(scheduler: Scheduler) -> Source:
    """Return the configuration that the scheduler's own installer gives it."""
    name = f"{scheduler.value}.yaml"
    text = (files("adapters.cli.configure") / "defaults" / name).read_text("utf-8")
    return Source(f"the default of {scheduler.value}", text, named=False)


def configure(
    scheduler: Scheduler, source: Source, options: ConfigureOptions, key: str | None = None
) -> ConfigureResult:
    """Add what Dragoman needs to a scheduler's configuration.

    A text that has it all is left as it is, to the byte.

    Raises:
        InputError: the text is no such configuration, or an option does not fit it.
    """
    adapter = _ADAPTERS[scheduler]
    found = read(source, adapter.kind, key)
    before = found.render()
    return _result(source, found, before, adapter.add(found, options))


def unconfigure(scheduler: Scheduler, source: Source, key: str | None = None) -> ConfigureResult:
    """Take Dragoman out of a scheduler's configuration, and restore what it had replaced.

    Raises:
        InputError: the text is no such configuration.
    """
    adapter = _ADAPTERS[scheduler]
    found = read(source, adapter.kind, key)
    before = found.render()
    result = _result(source, found, before, adapter.remove(found))
    if result.before == result.after:
        result.notes.append(f"{found.name}: has nothing of Dragoman")
    return result


def _result(source: Source, found: Configuration, before: str, notes: list[str]) -> ConfigureResult:
    after = found.render()
    if after == before:
        return ConfigureResult(source.text, source.text, notes)
    return ConfigureResult(before, after, notes)


def own_url(scheduler: Scheduler, source: Source) -> str | None:
    """Return the address at which a scheduler with this configuration asks Dragoman; None for none.

    Raises:
        InputError: the text is no such configuration.
    """
    adapter = _ADAPTERS[scheduler]
    return adapter.own_url(read(source, adapter.kind))


def is_alone(scheduler: Scheduler, source: Source) -> bool:
    """Whether a scheduler is in native mode and asks Dragoman about no pod, as the user chose.

    Raises:
        InputError: the text is no such configuration.
    """
    return read(source, _ADAPTERS[scheduler].kind).is_alone


def difference(outcome: ConfigureResult, name: str) -> str:
    """Return what a run changed, as a unified diff; empty for nothing."""
    before, after = (text.splitlines(keepends=True) for text in outcome[:2])
    return "".join(unified_diff(before, after, name, f"{name} by dragoman configure"))
