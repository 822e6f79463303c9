"""Starts the real components as plain processes and stops every one of them again.

Loopback only, one private folder per run, nothing left behind, also when the test process is
killed. Standard library only.
"""
