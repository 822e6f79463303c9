"""Why a pod is pending, or why it is where it is."""
