"""What schedulers with a device plugin of their own share in native mode."""

from adapters.cli.configure.document import Configuration
from adapters.cli.configure.mode import Asked
from adapters.cli.configure.options import ConfigureOptions
from adapters.cli.input.source import InputError

MIRRORS = (
    "native mode: {plugin} sees the cards of pods of other dialects where the service writes"
    " mirrored records (its setting mirrors); it meets any other holder only when the"
    " webhook corrects or rejects a Binding"
)
"""What a user must know of it."""

_ASK = "ask"


def is_alone(found: Configuration) -> bool:
    """Whether the user chose native mode without asking Dragoman about any pod."""
    return found.record.chosen(_ASK) == Asked.NONE.value


def choose_asked(
    found: Configuration, options: ConfigureOptions, *, native: bool, present: Asked = Asked.OTHERS
) -> Asked:
    """About which pods the scheduler asks; noted where no entry shows it.

    Args:
        found: the note is in its record.
        options: what the user asked for.
        native: the mode.
        present: what the entries of the file show.

    Raises:
        InputError: an option excludes another one.
    """
    if not native:
        if options.ask not in (None, Asked.ALL):
            raise InputError(
                "--ask",
                f"{options.ask.value!r} is for --mode native: as extender Dragoman serves all"
                " dialects; leave it out",
            )
        found.record.choose(_ASK, "")
        return Asked.ALL
    asked = options.ask or (Asked.NONE if is_alone(found) else present)
    if asked is Asked.NONE:
        for flag, is_given in (
            ("--url", options.url is not None),
            ("--ca-file, --ca-data", options.has_ca),
            ("--preemption", options.preemption is not None),
            ("--plain-pods", options.plain_pods is not None),
        ):
            if is_given:
                problem = "is for an extender, and there is none with --ask none; leave it out"
                raise InputError(flag, f"{problem}, or give --ask others")
    found.record.choose(_ASK, asked.value if asked is Asked.NONE else "")
    return asked
