"""Alpha, each off by default: pods as ResourceClaims, binding conditions, release of unused claims.

The settings are ``dra.convert``, ``dra.conditions`` and ``dra.deallocateUnused``. Only
the composition of the leader's tasks depends on this room.
"""
