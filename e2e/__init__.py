"""End-to-end tests: our program among the real components, as plain processes on one machine."""
