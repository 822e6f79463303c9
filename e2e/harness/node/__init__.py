"""A node: machine, containerd, kubelet, the agent, and calls to the runtime."""
