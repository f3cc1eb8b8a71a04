"""Real sockets, timers and processes around a machine."""
