"""The service without a cluster: nodes and pods from files."""
