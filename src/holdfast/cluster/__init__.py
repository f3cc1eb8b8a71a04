"""Start, stop, crash, freeze and cut real broker processes."""
