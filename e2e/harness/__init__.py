"""Starts the real components as plain processes on loopback and stops every one of them again.

Each run has a private folder; nothing is left behind, also when the test process is killed. Rooms,
each of which imports those to its right: rounds; schedulers, oracles; workloads, doubles, node;
cluster; processes.
"""
