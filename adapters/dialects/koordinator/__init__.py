"""Koordinator: ``koordinator.sh/gpu*``, Device objects, ``device-allocated``."""
