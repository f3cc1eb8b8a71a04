"""Scripts that play an evening of a cluster: one command a line, on the simulator or on real processes."""
