"""The node agent: what was sold is what the container gets, or the container does not start.

Imports go one way: main -> link -> session -> adjust, ttrpc, mux -> the values that they share.
Neither numpy nor a Kubernetes client nor pydantic: the agent stays small.
"""
