"""Entry points: our packages come before any others that have their names.

``core`` and ``adapters`` are generic names: PyPI has an ``adapters`` that imports torch. So the
folder that has ours is the first of ``sys.path``, before the current directory, ``PYTHONPATH`` and
``site-packages``. This module imports nothing of them until that is settled.
"""

import gc
import importlib.util
import os
import signal
import sys

NAMES = ("core", "adapters")
BAD_INPUT = 2


def command() -> None:
    """``dragoman`` and ``kubectl-dragoman``."""
    end_when_stopped()
    prefer_our_packages()
    # A command builds many objects and keeps them, and has few cycles. A collection visits all
    # objects: by the default thresholds that is a seventh of the processor time with 5,000 nodes
    # and 20,000 pods, and without the last line a tenth of it for a small file. A service has
    # thresholds of its own.
    gc.set_threshold(50_000, 20, 1_000)
    from adapters.cli.main import main

    try:
        main()
    finally:
        gc.freeze()  # Python collects once more when it ends


def completion() -> None:
    """``kubectl_complete-dragoman``."""
    prefer_our_packages()
    from adapters.cli.main import complete

    complete()


def end_when_stopped() -> None:
    """End the process on SIGTERM, until the program has a handler of its own.

    The kernel ignores the default action of the first process of a container: a service that was
    stopped while it started led until it was killed, and left the Lease to a leader that had gone.
    """

    def end(number: int, _frame: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        os._exit(128 + number)  # the first process is still there

    signal.signal(signal.SIGTERM, end)


def prefer_our_packages() -> None:
    """Put the folder with our packages first on ``sys.path``.

    Raises:
        SystemExit: a package of the same name is loaded all the same, for instance because a
            ``.pth`` file or ``sitecustomize`` imported it before us.
    """
    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib takes 5 ms
    lib = os.path.join(here, "lib")  # noqa: PTH118
    ours = lib if os.path.isdir(lib) else os.path.dirname(here)  # noqa: PTH112, PTH120
    sys.path.insert(0, ours)
    for name in NAMES:
        try:  # the file from which Python has loaded the package, or would load it
            spec = importlib.util.find_spec(name)
            origin = (spec and spec.origin) or "a folder without __init__.py"
        except ValueError:  # it is loaded and states no spec
            origin = "an unknown place"
        if origin != os.path.join(ours, name, "__init__.py"):  # noqa: PTH118
            sys.stderr.write(
                f"dragoman: Python has the package {name} from {origin}, not from {ours}; "
                "install dragoman in an environment of its own, for instance with pipx\n"
            )
            raise SystemExit(BAD_INPUT)
