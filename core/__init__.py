"""The allocation core: values in, values out.

No I/O, no clock, no logging, and no word of Kubernetes or of a vendor: those belong to adapters.
"""
