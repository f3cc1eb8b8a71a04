"""Virtual time, network, disks and faults driving the same machines, and the checkers that judge them."""
