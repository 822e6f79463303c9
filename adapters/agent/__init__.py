"""The node agent gives each container its granted share, or keeps the container from starting.

Rooms, each importing only what follows it: ``main``; ``metrics``, ``kubelet``, ``apiserver``;
``hook``; ``hardware``; ``grants``; ``nri``. Without NumPy, a Kubernetes client and pydantic: the
agent stays small.
"""
