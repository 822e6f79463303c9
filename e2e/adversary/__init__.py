"""An adversary: random histories against two replicas of the service on a real API server.

A checker computes which pod holds what from what the API server shows and from the cards of the
nodes. Nothing here but ``mutants`` and ``stopping`` imports the product.
"""
