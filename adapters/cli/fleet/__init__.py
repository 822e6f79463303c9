"""The cards of a cluster and what is allocated on them, read by the command from objects."""
