"""The `dragoman` command: the edge that reads files, calls the rest and prints what came of it."""
