"""What the service knows of the cluster's pods, nodes and agents."""
