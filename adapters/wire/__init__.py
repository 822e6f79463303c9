"""The JSON of Kubernetes and of schedulers, typed and partial: only the fields that are read.

Bytes to structs and back; the dialects know what a field means.
"""
