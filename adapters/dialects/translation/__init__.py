"""Translates requests to another dialect or to ResourceClaims: written, read again, compared."""
