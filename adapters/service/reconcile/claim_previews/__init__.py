"""Alpha, each off by default: pods as ResourceClaims, binding conditions, release of unused claims.

The settings are ``dra.convert``, ``dra.conditions`` and ``dra.deallocateUnused``. Nothing else in the
service depends on this room but the composition of the leader's tasks.
"""
