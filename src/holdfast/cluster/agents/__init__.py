"""Agents: one on each machine, which starts, signals and watches the processes of clusters for a master elsewhere."""
