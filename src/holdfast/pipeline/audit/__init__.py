"""The audit: did a run keep what was promised, over any number of events?

The words and rules are those of the checkers that the simulator uses (docs/guarantees.md), and so are the verdicts; the
ways are others. Names become hashes of 64 bits in Spark's own expressions, so two names of a run are taken for one with
a probability of about n²/2⁶⁵ for n names.

1. `rows.survey`, native: how much there is by run and client; malformed rows.
2. `pasts`, one task per run: the causal past of every publication.
3. `judging`, a task for some clients and all publications of their runs: lost, duplicated, created, fifo, causal, and a
   print of every client's order by key.
4. `disputes`, only for keys whose prints differ: total.
"""

from holdfast.pipeline.audit.job import Audit, audit

__all__ = ["Audit", "audit"]
