"""The service in a cluster: the ports on the Kubernetes API, and which tasks run."""
