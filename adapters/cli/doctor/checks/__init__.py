"""One file for each subject; each check returns findings."""
