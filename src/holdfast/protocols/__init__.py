"""Pure state machines: events in, ordered effects out, with no socket, clock, disk or global randomness inside."""
