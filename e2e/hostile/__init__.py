"""Hostile clients of all ports of one service, for a second or for an hour."""
