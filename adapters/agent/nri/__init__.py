"""The NRI protocol: bytes to values and back, without I/O but for one socket (``connection``)."""
