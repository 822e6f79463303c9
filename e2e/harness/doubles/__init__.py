"""Doubles at the edges: recorders, proxies that break connections, captured bodies."""
