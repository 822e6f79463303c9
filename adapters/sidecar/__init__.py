"""The scheduling service: one ledger beside stock schedulers.

``main`` puts it together; ``http`` and ``grpc`` speak to the world; ``service`` and what it is
made of decide, and see the world through ``ports``.
"""
