"""What happens to a container: the policy, the adjustment, the reports."""
