"""Stock schedulers with their configuration, and our service beside them."""
