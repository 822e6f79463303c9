"""Names that several rooms of the harness use: Dragoman's own, and Koordinator's."""

NAMESPACE, RELEASE = "dragoman-system", "dragoman"
"""Where Dragoman's chart is installed. The release is also the name of the service's account."""

LEDGERS = "/apis/dragoman.dev/v1alpha1/nodeledgers"
"""Path of Dragoman's records."""

LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
"""Path of the Leases that its replicas hold."""

# koordinator apis/extension/device_share.go
CORE, RATIO = "koordinator.sh/gpu-core", "koordinator.sh/gpu-memory-ratio"
ALLOCATED = "scheduling.koordinator.sh/device-allocated"
DEVICES = "/apis/scheduling.koordinator.sh/v1alpha1/devices"
