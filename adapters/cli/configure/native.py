"""What schedulers with a device plugin of their own share in native mode."""

from adapters.cli.configure.document import Configuration
from adapters.cli.configure.options import ConfigureOptions
from adapters.cli.input.source import InputError

MIRRORS = (
    "native mode: {plugin} sees the cards of pods of other dialects where the service writes"
    " mirrored records (the section mirrors of its settings); it meets any other holder when the"
    " webhook corrects or rejects a Binding"
)
"""What a user must know of it."""

_OTHERS = "other-dialects"
_NO = "no"


def is_alone(found: Configuration) -> bool:
    """Whether the user chose native mode without asking Dragoman about other dialects."""
    return found.record.chosen(_OTHERS) == _NO


def choose_others(found: Configuration, options: ConfigureOptions, *, native: bool) -> bool:
    """Whether Dragoman is asked about dialects that the scheduler's plugin does not serve; noted.

    Raises:
        InputError: an option excludes another one.
    """
    asks = options.other_dialects
    if asks is None:
        asks = not native or not is_alone(found)
    if not asks and not native:
        raise InputError(
            "--no-other-dialects",
            "is for --mode native: as extender Dragoman serves all dialects; leave it out",
        )
    if not asks:
        for flag, is_given in (
            ("--url", options.url is not None),
            ("--ca-file, --ca-data", options.has_ca),
            ("--preemption", options.preemption is not None),
            ("--plain-pods", options.plain_pods is not None),
        ):
            if is_given:
                problem = "is for an extender, and --no-other-dialects asks none; leave it out"
                raise InputError(flag, f"{problem}, or give --other-dialects")
    found.record.choose(_OTHERS, "" if asks else _NO)
    return asks
