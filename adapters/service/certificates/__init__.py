"""The service's own serving certificate: issued, published and renewed without downtime.

``rotation`` decides from values what to do; ``secret`` does it.
"""
