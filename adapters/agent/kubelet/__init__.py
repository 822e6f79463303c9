"""Which devices the kubelet assigned, read from its checkpoint file."""
