"""Requests of schedulers and of the API server: bytes in, a decision, bytes out."""
