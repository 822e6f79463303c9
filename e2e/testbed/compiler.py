"""The C compiler, for the small libraries and programs of tests."""

import shutil

from e2e.testbed.cache import NotBuiltError


def c_compiler(purpose: str) -> str:
    """Path of the machine's C compiler.

    Args:
        purpose: what it is wanted for, to follow "for".

    Raises:
        NotBuiltError: there is none.
    """
    found = shutil.which("cc") or shutil.which("gcc")
    if found is None:
        raise NotBuiltError(f"no C compiler (cc or gcc) on the PATH, for {purpose}; install gcc")
    return found
