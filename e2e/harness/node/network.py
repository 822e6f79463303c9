"""A network for pods that do not use the node's: an address that leads nowhere.

Pods as the guides have them want a network of their own, and the runtime wants an address for it.
A real one would change the host's interfaces; the containers of these tests use no network.
Source: the CNI specification 1.0.0, "Section 5: Result Types".
"""

import json
from pathlib import Path

_CONFIGURATION = {"cniVersion": "1.0.0", "name": "e2e", "plugins": [{"type": "address"}]}
_RESULT = {
    "cniVersion": "1.0.0",
    "interfaces": [{"name": "eth0", "sandbox": "/proc/self/ns/net"}],
    "ips": [{"interface": 0, "address": "10.88.0.2/16"}],
}
_VERSIONS = {"cniVersion": "1.0.0", "supportedVersions": ["1.0.0"]}
_PLUGIN = f"""\
#!/bin/sh
case "$CNI_COMMAND" in
ADD) echo '{json.dumps(_RESULT)}' ;;
VERSION) echo '{json.dumps(_VERSIONS)}' ;;
esac
"""


def write_network(configurations: Path, plugins: Path) -> None:
    """Write the configuration, in the place of any other of the tests, and its plugin.

    Args:
        configurations: the folder of the runtime's configurations.
        plugins: a folder in which the runtime looks for plugins.
    """
    (configurations / "10-e2e.conflist").write_text(json.dumps(_CONFIGURATION))
    plugin = plugins / "address"
    plugin.write_text(_PLUGIN)
    plugin.chmod(0o755)
