"""``make testbed``: put every component into the cache, and check what is there.

    python3 -m e2e.testbed.build [--kind | COMPONENT...]

Without a name: every component but those that only ``make e2e-kind`` needs; with ``--kind``,
those too. What only a benchmark needs is built by its name. A component that cannot be had is named
with its reason, the others go on, and the exit status is 1 at the end.

Two components are built at once: while one downloads its modules or is linked, which takes one
processor, the other one is compiled.
"""

import resource
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from e2e.testbed import cache, debian, debian_root, golang
from e2e.testbed.golang import BuildError
from e2e.testbed.verify import verify
from e2e.testbed.versions import (
    Component,
    DebianComponent,
    GoComponent,
    RootComponent,
    components,
    of_bench_alone,
    of_kind_alone,
)

MIB = 2**20
AT_ONCE = 2


def main(names: list[str]) -> int:
    """Build what is missing among the named components, or among those of a suite."""
    known = components()
    if names in ([], ["--kind"]):
        names = of_suite(kind=bool(names))
    unknown = set(names) - known.keys()
    if unknown:
        print(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
        return 2
    wanted = [component for name, component in known.items() if name in names]
    if why := debian_root.obstacle():
        for part in [each for each in wanted if isinstance(each, RootComponent)]:
            _say(f"  {part.name}: left out, make e2e-kind needs it: {why}")
            wanted.remove(part)
    missing = [component for component in wanted if not cache.is_built(component)]
    print(f"test bed in {cache.root()}: {len(wanted) - len(missing)} of {len(wanted)} built")
    failed = _build(missing) if missing else {}
    for component in wanted:
        if component.name not in failed:
            _check(component, failed)
    for name, reason in failed.items():
        print(f"NOT BUILT  {name}: {reason}")
    return 1 if failed else 0


def of_suite(*, kind: bool) -> list[str]:
    """Names of the components that ``make e2e-kind`` needs, or the other suites."""
    left_out = of_bench_alone() if kind else of_bench_alone() | of_kind_alone()
    return [name for name in components() if name not in left_out]


def _build(missing: list[Component]) -> dict[str, str]:
    """Build what is missing; the reasons of those that could not be built."""
    failed: dict[str, str] = {}
    started = time.monotonic()
    packages = [part for part in missing if isinstance(part, DebianComponent)]
    modules = [part for part in missing if isinstance(part, GoComponent)]
    roots = [part for part in missing if isinstance(part, RootComponent)]  # take a package
    with ThreadPoolExecutor(AT_ONCE) as pool:
        fetched = pool.submit(_fetch, packages, failed)
        built = pool.map(partial(_attempt, failed=failed), modules)
        fetched.result()
        made = pool.map(partial(_attempt, failed=failed), roots)
        list(built)
        list(made)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    _say(
        f"  {len(missing) - len(failed)} components in {time.monotonic() - started:.0f} s "
        f"({used.ru_utime + used.ru_stime:.0f} s of processor)"
    )
    return failed


def _attempt(component: Component, failed: dict[str, str], apt: debian.Apt | None = None) -> None:
    """Fill the component's place in the cache; note the reason if that fails."""
    started = time.monotonic()
    facts: dict[str, object] = {}
    try:
        with cache.filling(component, facts) as folder:
            if isinstance(component, GoComponent):
                (folder / "bin").mkdir()
                for command in component.commands:
                    _say(f"  {component.name}: building {command} {component.version}")
                    golang.build(component, command, folder / "bin" / command)
                golang.copy_assets(component, folder)
                facts["version"] = component.version
            elif isinstance(component, RootComponent):
                _say(f"  {component.name}: {len(component.packages)} packages")
                facts["version"] = debian_root.build(component, folder)
            elif apt is not None:
                facts["version"] = apt.fetch(component, folder)
            verify(component, folder)
            facts["seconds"] = round(time.monotonic() - started, 1)
    except BuildError as error:
        failed[component.name] = str(error)
        _say(f"  {component.name}: failed after {time.monotonic() - started:.0f} s")
        return
    _say(
        f"  {component.name}: {facts['version']} in {facts['seconds']} s, "
        f"{cache.size(component) / MIB:.0f} MiB"
    )


def _fetch(missing: Iterable[DebianComponent], failed: dict[str, str]) -> None:
    """Fetch all Debian packages with one set of lists."""
    parts = list(missing)
    if not parts:
        return
    _say("  debian: fetching package lists")
    try:
        with debian.apt([part.suite for part in parts]) as apt:
            for part in parts:
                _attempt(part, failed, apt)
    except BuildError as error:
        failed |= {part.name: str(error) for part in parts if not cache.is_built(part)}


def _check(component: Component, failed: dict[str, str]) -> None:
    """Run what is in the cache; a copy that does not run is no copy."""
    try:
        verify(component, cache.place(component))
    except BuildError as error:
        failed[component.name] = str(error)


def _say(line: str) -> None:
    sys.stdout.write(f"{time.strftime('%H:%M:%S')}{line}\n")  # whole: threads share the output
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
