"""How much containers use of their shares, and their limits."""

from collections.abc import Callable, Sequence

from adapters.agent.metrics.exposition import Family, Sample
from adapters.agent.metrics.naming import ZONE, Labels, both, container_labels
from adapters.agent.metrics.usage import ShareUse


def share_families(uses: Sequence[ShareUse]) -> list[Family]:
    """Memory, limits and utilization of each card of each container."""

    def families(old: str, new: str, text: str, value: Callable[[ShareUse], float]) -> list[Family]:
        pairs = [(Sample(_old(use), value(use)), Sample(_new(use), value(use))) for use in uses]
        return both(old, new, text, pairs)

    def detail(name: str, text: str, value: Callable[[ShareUse], float]) -> Family:
        return Family(name, text, tuple(Sample(_new(use), value(use)) for use in uses))

    return [
        *families(
            "vGPU_device_memory_usage_in_bytes",
            "hami_vgpu_memory_used_bytes",
            "vGPU device usage",
            lambda use: use.card.used,
        ),
        *families(
            "vGPU_device_memory_limit_in_bytes",
            "hami_vgpu_memory_limit_bytes",
            "vGPU device limit",
            lambda use: use.card.limit,
        ),
        *both(
            "Device_memory_desc_of_container",
            "hami_container_device_memory_bytes",
            "Container device memory description",
            [
                (Sample(_described(use), use.card.used), Sample(_new(use), use.card.used))
                for use in uses
            ],
        ),
        *families(
            "Device_utilization_desc_of_container",
            "hami_container_device_utilization_ratio",
            "Container device utilization description",
            lambda use: use.card.compute,
        ),
        *both(
            "Device_last_kernel_of_container",
            "hami_container_last_kernel_elapsed_seconds",
            "Container device last kernel description",
            [
                (Sample(_old(use), use.idle), Sample(_new(use), use.idle))
                for use in uses
                if use.idle
            ],
        ),
        detail(
            "hami_vgpu_memory_context_bytes",
            "Container device memory of contexts",
            lambda use: use.card.context,
        ),
        detail(
            "hami_vgpu_memory_module_bytes",
            "Container device memory of modules",
            lambda use: use.card.module,
        ),
        detail(
            "hami_vgpu_memory_buffer_bytes",
            "Container device memory of data",
            lambda use: use.card.data,
        ),
    ]


def _old(use: ShareUse) -> Labels:
    return container_labels(use.container, use.index, use.card.uuid)[0] | ZONE


def _new(use: ShareUse) -> Labels:
    return container_labels(use.container, use.index, use.card.uuid)[1] | ZONE


def _described(use: ShareUse) -> Labels:
    card = use.card
    return _old(use) | {
        "context": str(card.context),
        "module": str(card.module),
        "data": str(card.data),
        "offset": str(card.offset),
    }
