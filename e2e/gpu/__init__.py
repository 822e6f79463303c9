"""What the agent reads of a machine, beside what the driver's own tool says; changes nothing."""
