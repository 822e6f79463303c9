"""The `dragoman` command: reads files, calls the other packages and prints the result."""
