"""What this process knows: ledgers, quotas, and whether it knows enough to decide."""
