"""What a pod requests, and what a decision answers: a placement, or a reason with counts."""
