"""What pods, gangs and ResourceClaims have of the cards, worked out from objects. No I/O.

The service keeps its caches by it; the command works out the same from a dump of a cluster.
"""
