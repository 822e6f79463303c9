"""The C compiler, for the two small libraries that tests preload or open."""

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
