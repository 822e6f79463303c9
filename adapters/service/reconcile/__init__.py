"""What the elected leader repairs: node inventories, adopted pods, orphaned allocations."""
