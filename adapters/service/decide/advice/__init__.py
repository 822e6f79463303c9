"""What allocates nothing: filter, score, preemption and explanations. Schedulers may ignore it."""
