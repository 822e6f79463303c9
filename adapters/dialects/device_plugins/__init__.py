"""Vendors' device plugins without a scheduler of cards: their resources, nodes and pods."""
