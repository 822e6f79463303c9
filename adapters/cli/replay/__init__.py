"""Makes recorded decisions again, and compares."""
