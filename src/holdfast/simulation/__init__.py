"""Virtual time, network, disks and faults driving the same machines, and the checkers that judge them.

`world.Simulation` is one run; `faults` has what its timetable can hold; `scenarios` reads timetables from files;
`workloads` makes random ones and `shrinking` makes those that go wrong small; `checkers` judge any trace.
"""
