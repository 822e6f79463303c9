"""The dialects: each reads pods and nodes, and reads and writes results, in one ecosystem's format.

Pure functions; no dialect imports another one. A new dialect is one package and one entry in
``registry.DIALECTS``.
"""
