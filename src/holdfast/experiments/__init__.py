"""Experiments of the papers, repeated in the simulator: points, a pure function for each, and reports of the rows."""
