"""A process identifier is only trusted together with the time its process began."""

import os
import signal
import subprocess
import sys

from holdfast.cluster.pids import ProcessId, born, process_id


def test_this_process_is_alive():
    assert process_id(os.getpid()).is_alive()


def test_a_number_that_somebody_else_has_now_is_neither_alive_nor_signalled():
    recycled = ProcessId(os.getpid(), "the day before yesterday")
    assert not recycled.is_alive()
    # If this were delivered, the test run would end here.
    assert not recycled.signal(signal.SIGKILL)


def test_a_process_that_ended_is_not_alive_even_before_it_is_waited_for():
    with subprocess.Popen([sys.executable, "-c", "pass"], stdout=subprocess.PIPE, start_new_session=True) as child:
        identity = ProcessId(child.pid, born(child.pid))
        assert child.stdout is not None
        child.stdout.read()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert not identity.is_alive()
        assert not identity.signal(signal.SIGTERM)


def test_a_living_process_gets_its_signal():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True) as child:
        assert process_id(child.pid).signal(signal.SIGKILL)
        assert child.wait() == -signal.SIGKILL


def test_nobody_has_a_number_that_was_never_given():
    assert born(2**31 - 1) == ""
