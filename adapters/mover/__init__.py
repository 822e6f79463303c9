"""The mover: evicts the pods that MovePlans name, when their status orders it, and does no more.

A process of its own, because evicting is a right that the service need not have. It reads no pods
and no ledgers: the service decides when a pod may go.
"""
