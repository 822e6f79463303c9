"""The driver of Dynamic Resource Allocation: a process of its own on each node.

It publishes the node's cards as ResourceSlices and prepares the claims of pods for the kubelet. It
reuses the agent's rooms; the agent never imports it, and so stays without gRPC.
"""
