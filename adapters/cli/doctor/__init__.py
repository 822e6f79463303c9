"""``dragoman doctor``: reads a cluster and names what keeps Dragoman from working in it.

``reader`` does all requests; ``checks`` are functions of what was read.
"""
