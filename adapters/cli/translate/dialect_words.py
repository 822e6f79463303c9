"""What the registry knows about the words of a dialect, for translations."""

from adapters.cli.input.source import InputError
from adapters.dialects import registry
from adapters.dialects.info import DialectInfo
from adapters.dialects.request_writer import RequestWriter

DEFAULT_SCHEDULER = "default-scheduler"
"""A pod that names none has this one: k8s.io/api/core/v1 types.go, DefaultSchedulerName."""


def targets() -> list[str]:
    """The dialects that requests can be written in."""
    return [info.name for info in registry.DIALECTS if info.writer is not None]


def writer_of(name: str) -> RequestWriter:
    """What writes a request in a dialect.

    Raises:
        InputError: nothing does.
    """
    writer = _info(name).load_writer()
    if writer is None:
        raise InputError(name, f"cannot be translated; must be one of {', '.join(targets())}")
    return writer


def texts_of(name: str) -> frozenset[str]:
    """Annotations and labels that state a request or a result of a dialect."""
    return _info(name).texts(writer_of(name))


def vendor_of(name: str) -> str | None:
    """The vendor of the only cards that a dialect can describe; None where it has no such one."""
    return _info(name).vendor


def is_foreign_scheduler(name: str, target: str) -> bool:
    """Whether a ``spec.schedulerName`` names another scheduler than the target's users run."""
    return name not in (_info(target).scheduler, DEFAULT_SCHEDULER)


def _info(name: str) -> DialectInfo:
    return next(info for info in registry.DIALECTS if info.name == name)
