"""``dragoman translate``: manifests from one dialect to another."""
