"""What this process knows: ledgers, quotas, waiting pods, and whether it knows enough to decide."""
