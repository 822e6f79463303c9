"""Make a small Debian root with mmdebstrap, from the machine's own mirror."""

import os
import subprocess
from pathlib import Path

from e2e.testbed import cache, debian
from e2e.testbed.cache import NotBuiltError
from e2e.testbed.golang import BuildError
from e2e.testbed.versions import ROOT, RootComponent

# Nothing reads them in there.
UNUSED = ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info")


def obstacle() -> str:
    """Why roots cannot be made here, or the empty string."""
    return "" if os.geteuid() == 0 else "making a Debian root takes root's rights"


def build(component: RootComponent, folder: Path) -> str:
    """Make the root in the component's place, and say of what.

    Raises:
        BuildError: mmdebstrap is not there, or failed.
    """
    try:
        program = cache.binary("mmdebstrap", "mmdebstrap")
    except NotBuiltError as error:
        raise BuildError(str(error)) from error
    words = ["perl", str(program), "--mode=root", "--variant=minbase", "--quiet"]
    words.append(f"--include={','.join(component.packages)}")
    words += [f"--dpkgopt=path-exclude=/{unused}/*" for unused in UNUSED]
    words += ["--dpkgopt=force-unsafe-io", '--aptopt=Acquire::Languages "none"']
    words.append('--aptopt=Acquire::Retries "3"')
    words += [component.suite, str(folder / ROOT), debian.mirror()]
    # Its second program, mmtarfilter, is looked up on PATH.
    environment = os.environ | {"PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise BuildError("mmdebstrap: " + "\n".join(done.stderr.strip().splitlines()[-8:]))
    return f"Debian {component.suite}"
