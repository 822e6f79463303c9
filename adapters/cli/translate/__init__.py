"""``dragoman translate``: manifests from one dialect to another.

``manifest`` splits a text into documents and writes changed ones back, ``pods`` finds pods and
templates in a document, ``rewrite`` changes them, ``translation`` decides what to write and what is
lost.
"""
