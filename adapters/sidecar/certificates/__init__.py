"""The service's own serving certificate: made, published, renewed and taken over without a pause.

What is to be done is decided in ``rotation``, from values; ``keeper`` does it.
"""
