"""The cards of this machine: from a file or from NVML; health; MIG partitioning."""
