"""Koordinator's words that other dialects use too, with the file that defines each.

Paths are in koordinator-sh/koordinator, unless another repository is named.
"""

from adapters.dialects.dialect import Document

NAME = "koordinator"
"""The dialect of the cards that a Device object describes."""

# apis/extension/device_share.go:43-59
CORE = "koordinator.sh/gpu-core"
MEMORY = "koordinator.sh/gpu-memory"
RATIO = "koordinator.sh/gpu-memory-ratio"

# apis/extension/deprecated.go:21-60
DEPRECATED = {
    CORE: "kubernetes.io/gpu-core",
    MEMORY: "kubernetes.io/gpu-memory",
    RATIO: "kubernetes.io/gpu-memory-ratio",
}
"""Earlier names, by the name that wins where a record has both."""

# apis/extension/device_share.go:31
ALLOCATED = "scheduling.koordinator.sh/device-allocated"
# pkg/scheduler/plugins/deviceshare/device_plugin_adapter.go:42-51
BIND_TIMESTAMP = "scheduling.koordinator.sh/bind-timestamp"
MINORS = "scheduling.koordinator.sh/gpu-minors"

# koordinator-sh/charts versions/v1.8.0/templates/koord-scheduler-config.yaml
SCHEDULER_CONFIG: Document = ("koord-scheduler-config", "koord-scheduler-config")
# apis/extension/multi_scheduler.go:41-60
DEVICE_SHARE = "DeviceShare"
