"""The few requests that the agent makes to the API server."""
