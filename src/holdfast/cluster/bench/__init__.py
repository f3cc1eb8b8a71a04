"""How fast Holdfast is, beside a bare relay (the floor) and NATS, all measured in one run on this machine."""
