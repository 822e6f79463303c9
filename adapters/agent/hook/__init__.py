"""What happens to a container: the facts, the policy, the answer in time, the reports."""
