"""``make e2e-kind``: a cluster in containers, and the tests of ``e2e/kind/tests`` in it.

    python -m e2e.kind [COMMAND...]

Uses the Docker engine that answers; where there is none, starts its own (as root). A
COMMAND runs in the place of the tests, with the cluster's KUBECONFIG: ``python -m e2e.kind bash``.

Ends with 3 where no engine answers and this machine cannot run one.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

from e2e.harness.processes.run import REPOSITORY, run
from e2e.kind import image_store, product_images
from e2e.kind.cluster import NETWORK, ClusterError, cluster
from e2e.kind.engine import Engine, EngineError, NoEngineError, engine
from e2e.kind.node_image import node_image
from e2e.testbed import cache
from e2e.testbed.cache import NotBuiltError

# Steps in the order of their numbers, and after a failure none that builds on it.
TESTS = [
    *(sys.executable, "-m", "pytest", "e2e/kind/tests", "--quiet", "-rs", "--exitfirst"),
    *("-p", "no:randomly", "--timeout=900", "--durations=15"),
]
NO_ENGINE = 3
# Programs that tests and documentation call, each with the part of the test bed that has it.
TOOLS = {"kind": "kind", "helm": "helm", "kubectl": "kubernetes"}


def main(words: list[str]) -> int:
    """Bring everything up, run the command, take everything away."""
    started = time.monotonic()

    def say(line: str) -> None:
        print(f"{time.monotonic() - started:4.0f} s  {line}", flush=True)

    try:
        with run() as this, engine(this) as found:
            say(f"engine: {'our own' if found.own else 'the one that answers'}")
            image = node_image(found)
            say(f"node image: {image}")
            product_images.provide_base(found)
            image_store.remove_others(found, image)
            kubeconfig = this.folder / "kubeconfig"
            with cluster(found, image, kubeconfig) as nodes:
                say(f"cluster: {', '.join(sorted(nodes))}")
                status = _call(found, words or TESTS, kubeconfig)
                say(f"ended with {status}")
            say("cluster deleted")
    except (EngineError, ClusterError, NotBuiltError) as error:
        print(f"make e2e-kind cannot run here: {error}")
        return NO_ENGINE if isinstance(error, NoEngineError) else 1
    return status


def _call(found: Engine, words: list[str], kubeconfig: Path) -> int:
    tools = kubeconfig.parent / "tools"
    tools.mkdir()
    for name, part in TOOLS.items():
        (tools / name).symlink_to(cache.binary(part, name))
    environment = found.environment()
    path = [str(tools), str(Path(sys.executable).parent), environment["PATH"]]
    environment |= {
        "PATH": os.pathsep.join(path),
        "KUBECONFIG": str(kubeconfig),
        "DRAGOMAN_E2E_KIND": "1",
        "KIND_EXPERIMENTAL_DOCKER_NETWORK": NETWORK,
        "HELM_CACHE_HOME": str(kubeconfig.parent / "helm"),
    }
    done = subprocess.run(found.command(words), cwd=REPOSITORY, env=environment, check=False)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
