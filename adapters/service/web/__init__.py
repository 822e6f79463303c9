"""The service over HTTP: a raw ASGI application, one dictionary of routes, no framework."""
