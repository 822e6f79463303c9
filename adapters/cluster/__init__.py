"""The Kubernetes API: raw bytes in and out, watched, written with preconditions, elected.

Decisions are made elsewhere. The only importer of the client library, and of it only what finds
credentials; its models are used nowhere.
"""
