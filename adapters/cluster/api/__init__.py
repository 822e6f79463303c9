"""Requests to the Kubernetes API server: connection, credentials, retries, errors."""
