"""``dragoman doctor``: reads a cluster and names what keeps Dragoman from working in it.

``command`` does all requests; the checks are functions of what was read.
"""
