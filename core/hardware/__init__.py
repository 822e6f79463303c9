"""The cards of a node: memory, MIG geometry, links. Values, and arithmetic on them."""
