"""What surrounds the command in a shell: manual pages, and completion below kubectl."""
