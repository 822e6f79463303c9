"""The node agent gives each container its granted share, or keeps the container from starting.

Imports go one way: main -> link -> session -> adjust, ttrpc, mux -> the values that they share.
Neither numpy nor a Kubernetes client nor pydantic: the agent stays small.
"""
