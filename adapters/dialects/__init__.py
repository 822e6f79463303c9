"""The three vocabularies: read a pod, read a node, read and write a result.

Pure, and strangers to each other. A fourth dialect is one file and one line in the registry.
"""
