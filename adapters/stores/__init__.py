"""Where the ledger lives: memory, SQLite, Kubernetes, behind one small protocol.

A store keeps one record a node and compares its version before it writes. It decides nothing.
"""
