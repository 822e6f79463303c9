"""What the hook has done, and whether the runtime asks it."""

from adapters.node.hook.counters import HookCounters
from adapters.node.metrics.exposition import Family, Sample


def hook_families(counts: HookCounters) -> list[Family]:
    """The agent's own metrics."""

    def counter(name: str, text: str, value: int) -> Family:
        return Family(f"dragoman_node_{name}", text, (Sample({}, value),), "counter")

    def gauge(name: str, text: str, value: int) -> Family:
        return Family(f"dragoman_node_{name}", text, (Sample({}, value),))

    return [
        counter("containers_adjusted_total", "containers that got something", counts.adjusted),
        counter("containers_untouched_total", "containers that needed nothing", counts.untouched),
        counter("containers_refused_total", "containers kept from starting", counts.rejected),
        counter("containers_late_total", "of these, without an answer in time", counts.late),
        counter("connections_total", "times the runtime was reached", counts.connections),
        gauge(
            "containers_unserved", "containers running without their share", counts.without_share
        ),
        gauge(
            "containers_exposed", "containers that reach cards past their share", counts.with_bypass
        ),
        gauge("active", "whether the runtime asks the agent", int(counts.active)),
    ]
