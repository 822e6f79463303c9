"""``python -P -m dragoman.module adapters.agent CONFIG``: a program of ours that is no command.

As ``python -m``, but the module is ours whatever else has its name.
"""

import runpy
import sys

from dragoman.start import end_when_stopped, prefer_our_packages

if __name__ == "__main__":
    end_when_stopped()
    prefer_our_packages()
    _, name, *words = sys.argv
    sys.argv = [name, *words]
    runpy.run_module(name, run_name="__main__", alter_sys=True)
