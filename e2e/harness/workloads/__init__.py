"""Nodes, cards and pods that tests create."""
