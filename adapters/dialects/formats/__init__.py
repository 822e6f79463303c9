"""Text formats that several dialects share, parsed and written as their own programs do."""
