"""From one dialect to another, and to ResourceClaims: requests written, read again and compared."""
