"""What an API server has written, by its own metrics."""

import re
from collections import Counter
from collections.abc import Collection
from contextlib import closing

from e2e.harness.cluster.api import Api

_COUNT = re.compile(r"^apiserver_request_total\{(?P<labels>[^}]*)\} (?P<count>\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')


def accepted_writes(api: Api, kinds: Collection[str]) -> Counter[str]:
    """Count the accepted writes so far, by verb and resource, such as ``PATCH pods/status``.

    Args:
        api: the server.
        kinds: resources, with a subresource behind a slash.
    """
    connection = api.connection()
    with closing(connection):
        connection.request("GET", f"{api.root}/metrics", headers=dict(api.headers))
        text = connection.getresponse().read().decode()
    found: Counter[str] = Counter()
    for line in _COUNT.finditer(text):
        labels = dict(_LABEL.findall(line["labels"]))
        kind = "/".join(filter(None, (labels["resource"], labels["subresource"])))
        written = labels["verb"] in ("POST", "PUT", "PATCH") and labels["code"].startswith("2")
        if written and kind in kinds:
            found[f"{labels['verb']} {kind}"] += int(float(line["count"]))
    return found
