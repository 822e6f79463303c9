"""Makes each node's ledger, its pods and its ResourceClaims agree."""
