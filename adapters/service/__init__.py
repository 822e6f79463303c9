"""The scheduling service: keeps one ledger per node for stock schedulers.

``main`` composes it. ``endpoints``, ``web`` and ``grpc`` translate requests, ``decide`` decides
without I/O, ``reconcile`` is what the leader does. Rooms: docs/concepts/architecture.md.
"""
