"""What would happen with other pods, nodes or policies."""
