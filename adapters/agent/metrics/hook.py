"""What the hook has done, and whether the runtime calls it."""

from adapters.agent.hook.reporter import HookCounters
from adapters.agent.metrics.exposition import Family, Sample


def hook_families(counters: HookCounters) -> list[Family]:
    """The agent's own metrics."""

    def counter(name: str, text: str, value: int) -> Family:
        return Family(f"dragoman_node_{name}", text, (Sample({}, value),), "counter")

    def gauge(name: str, text: str, value: int) -> Family:
        return Family(f"dragoman_node_{name}", text, (Sample({}, value),))

    return [
        counter(
            "containers_adjusted_total", "Containers that got an adjustment.", counters.adjusted
        ),
        counter(
            "containers_untouched_total",
            "Containers that needed no adjustment.",
            counters.untouched,
        ),
        counter(
            "containers_refused_total",
            "Containers that the agent kept from starting.",
            counters.rejected,
        ),
        counter(
            "containers_late_total",
            "Containers rejected because there was no answer in time.",
            counters.late,
        ),
        counter(
            "connections_total",
            "Connections to the runtime that became active.",
            counters.connections,
        ),
        gauge(
            "containers_unserved",
            "Containers that run without their share.",
            counters.without_share,
        ),
        gauge(
            "containers_exposed",
            "Containers that can reach cards outside their share.",
            counters.with_bypass,
        ),
        gauge("active", "1 while the runtime calls the agent, else 0.", int(counters.active)),
    ]
