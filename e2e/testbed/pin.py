"""Write a component's ``go.mod`` and ``go.sum`` from what ``versions.toml`` says.

    python3 -m e2e.testbed.pin kubernetes volcano

Upstream's own replacements are taken over, because they are part of what upstream releases;
only the main module may replace, so they would otherwise be lost. Those that point to a folder of
upstream's repository (Kubernetes' staging) become the published modules.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from e2e.testbed.golang import go
from e2e.testbed.versions import GoComponent, components


def main(names: list[str]) -> int:
    """Pin the named components, or all."""
    for name, component in components().items():
        if isinstance(component, GoComponent) and (not names or name in names):
            print(f"{name}: {component.module} {component.version}")
            pin(component)
    return 0


def pin(component: GoComponent) -> None:
    """Write the component's ``go.mod`` and ``go.sum``."""
    component.folder.mkdir(exist_ok=True)
    upstream = _upstream(component)
    (component.folder / "go.mod").write_text(_text(component, upstream))
    (component.folder / "go.sum").unlink(missing_ok=True)
    _go("mod", "tidy", cwd=component.folder)


def _upstream(component: GoComponent) -> dict[str, Any]:
    """The module's own ``go.mod``, parsed."""
    asked = f"{component.module}@{component.version}"
    got = json.loads(_go("mod", "download", "-json", asked, cwd=Path("/")))
    parsed: dict[str, Any] = json.loads(_go("mod", "edit", "-json", got["GoMod"], cwd=Path("/")))
    return parsed


def _text(component: GoComponent, upstream: dict[str, Any]) -> str:
    replaced = {}
    for row in upstream.get("Replace") or ():
        old, new = row["Old"]["Path"], row["New"]
        if new["Path"].startswith("."):
            if component.staging:
                replaced[old] = f"{old} {component.staging}"
        else:
            replaced[old] = f"{new['Path']} {new['Version']}"
    replaced |= component.replace
    return "\n".join(
        [
            f"// Written by e2e/testbed/pin.py from versions.toml and {component.module}'s go.mod.",
            f"module dragoman.invalid/testbed/{component.name}",
            "",
            f"go {upstream['Go']}",
            "",
            "tool (",
            *(f"\t{package}" for package in component.commands.values()),
            ")",
            "",
            f"require {component.module} {component.version}",
            "",
            "replace (",
            *(f"\t{old} => {new}" for old, new in sorted(replaced.items())),
            ")",
            "",
        ]
    )


def _go(*words: str, cwd: Path) -> str:
    environment = os.environ | {"GOWORK": "off", "GO111MODULE": "on"}
    done = subprocess.run(
        [go(), *words], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"go {' '.join(words)}: {done.stderr[-2000:]}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
