"""What surrounds the command in a shell: manual pages."""
