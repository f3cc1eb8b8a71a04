"""Where things are kept: traces of runs as files."""
