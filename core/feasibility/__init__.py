"""Whether a request fits a node, for one node and for thousands; allocation and preemption."""
