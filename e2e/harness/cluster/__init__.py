"""Control planes, their nodes and accounts, and clusters of others as a guest."""
