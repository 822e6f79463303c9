"""Files, manifests and options, read and validated."""
