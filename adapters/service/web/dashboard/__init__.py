"""The dashboard: its files, and the questions that it asks, answered page by page."""
