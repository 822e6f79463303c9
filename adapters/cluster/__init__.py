"""The Kubernetes API: requests, watches, writes with preconditions, leader election.

Alone imports the official client library, and of it only what loads credentials, because it knows
exec plugins; its models are used nowhere (``watch.reflector`` has the measured reasons).
"""
