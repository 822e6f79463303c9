"""Lists of thousands of node names in one JSON array, without a string for each name."""
