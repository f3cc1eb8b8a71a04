"""What records say: JSON for processes of ours, and a line for programs that have configured no logging."""

import json
import logging
import subprocess
import sys

from holdfast.runtime.logs import JsonLines, ProcessLog

PROGRAM = """
from holdfast.runtime.logs import ProcessLog
log = ProcessLog("holdfast.client", node="alice")
log.warning("connection closed", peer="b0", address="", reason="it says 'HTTP/1.1'")
ProcessLog("holdfast.client").warning("gap: messages may be missing: b0 crashed", reason="b0 crashed")
"""


def test_a_program_without_any_logging_prints_the_reason_and_the_fields_with_the_event():
    printed = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True).stderr
    assert printed.splitlines() == [
        "connection closed: it says 'HTTP/1.1' (node=alice, peer=b0)",
        "gap: messages may be missing: b0 crashed",
    ]


def test_a_line_of_json_has_the_event_and_the_fields_apart():
    written: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: written.append(JsonLines().format(record))  # type: ignore[method-assign]
    logger = logging.getLogger("holdfast.test.logs")
    logger.addHandler(handler)
    try:
        ProcessLog("holdfast.test.logs", node="b0").warning("connection closed", peer="alice", reason="late")
    finally:
        logger.removeHandler(handler)
    [line] = map(json.loads, written)
    assert (line["event"], line["node"], line["peer"], line["reason"]) == ("connection closed", "b0", "alice", "late")
