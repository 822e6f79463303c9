"""Stores of ledgers: memory, SQLite and Kubernetes, behind one protocol.

A store keeps one record a node and compares its version before it writes. It decides nothing.
"""
