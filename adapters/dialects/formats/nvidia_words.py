"""The resources of NVIDIA's device plugin.

Importable without what reads quantities: the keys of three dialects have them.

Source: NVIDIA k8s-device-plugin, internal/lm/resource.go; api/config/v1/replicas.go for
``gpu.shared``; README, "mixed" strategy, for ``mig-PROFILE``.
"""

GPU = "nvidia.com/gpu"
SHARED = "nvidia.com/gpu.shared"
MIG_PREFIX = "nvidia.com/mig-"
