"""What should be there, computed without the code under test."""
