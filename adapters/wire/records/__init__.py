"""The objects that the service and the agent keep: ledgers, quotas and hardware."""
