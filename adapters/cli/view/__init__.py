"""What a cluster has and who has it: rows of nodes, cards, pods and namespaces."""
