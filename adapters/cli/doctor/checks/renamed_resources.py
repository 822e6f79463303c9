"""Resources that a dialect counts and by which no pod reaches the webhook for pods.

The chart's ``webhooks.resourcePrefixes`` name the resources of all dialects by their usual names.
A setting of an ecosystem can rename its own, and pods that name only these are then created without
Dragoman: nothing is validated, and nothing keeps their containers from every card.
"""

import re
from collections.abc import Iterator, Sequence

from adapters.cli.doctor.checks.webhooks import CHECK, PODS, webhooks_of
from adapters.cli.doctor.finding import CheckResult, warning
from adapters.cli.doctor.objects import Webhook
from adapters.cli.doctor.observed import Observed
from adapters.cli.fleet.settings import configured_dialects
from adapters.cli.input.source import InputError, InputLocation
from adapters.dialects import registry
from adapters.dialects.device_plugins import plugin_share
from adapters.dialects.dialect import Defaults, Dialect
from adapters.dialects.unread_keys import counts

# As charts/dragoman/templates/_helpers.tpl, dragoman.prefixes, and webhooks.yaml write them.
_PREFIXES = re.compile(r"\[([^\[\]]*)\]\.exists\(p, k\.startsWith\(p\)\)")
_QUOTED = re.compile(r"'([^']*)'")


def check(seen: Observed) -> Iterator[CheckResult]:
    """The resources that pods of this cluster request or its nodes state."""
    named = {name for pod in seen.pods for name in pod.resources()}
    named |= {name for node in seen.nodes for name in node.status.allocatable or () if "/" in name}
    try:
        dialects = _dialects(seen)
    except InputError as error:
        yield warning(
            CHECK, str(error), "correct the ConfigMap; the service keeps its last settings"
        )
        return
    shares = (name for name in named if plugin_share(name) is None)
    counted = sorted(name for name in shares if counts(name, dialects))
    for release in seen.releases():
        found = webhooks_of(seen, release).get(PODS)
        prefixes = () if found is None else _prefixes(found)
        for name in counted if prefixes else ():
            if not name.startswith(prefixes):
                yield warning(
                    CHECK,
                    f"pods that request {name} pass the webhook {PODS} of {release} unchecked",
                    f"add {name} to webhooks.resourcePrefixes",
                )


def _dialects(seen: Observed) -> Sequence[Dialect]:
    read = {name for name, _ in registry.documents()}
    maps = {
        f"{each.metadata.namespace}/{each.metadata.name}": each
        for each in seen.settings
        if each.metadata.name in read
    }
    places = {name: (each, InputLocation("the cluster", 0)) for name, each in maps.items()}
    return configured_dialects(places, Defaults())


def _prefixes(found: Webhook) -> tuple[str, ...]:
    """The prefixes in the webhook's conditions; none where it has other conditions, or none."""
    conditions = " ".join(each.expression for each in found.match_conditions or ())
    return tuple(
        prefix for written in _PREFIXES.findall(conditions) for prefix in _QUOTED.findall(written)
    )
