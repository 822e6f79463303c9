"""The protocol of NRI: bytes to values and back, and its one socket (``connection``)."""
