"""What this process knows: ledgers and quotas."""
