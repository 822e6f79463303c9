"""The service's own serving certificate: issued, and renewed without downtime.

``rotation`` decides from values what to do; ``in_cluster.certificate`` does it.
"""
