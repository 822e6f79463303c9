"""What pods and ResourceClaims have of the cards, worked out from objects and ledgers. No I/O.

The service keeps its ledgers by it; the command works out the same from a dump of a cluster.
"""
