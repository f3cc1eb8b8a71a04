"""The state directory: what is written down is read again, and two commands do not meet in it."""

import os
from pathlib import Path

import pytest

from holdfast.cluster.evaluation import default_cluster
from holdfast.cluster.machines import Running
from holdfast.cluster.pids import ProcessId, process_id
from holdfast.cluster.state import State, forget_state, locked, read_state, running_state, write_state
from holdfast.model.errors import ConfigError


def test_what_was_written_is_read_again(tmp_path: Path):
    running = [
        Running("broker", "0", process_id(os.getpid()), "0.log"),
        Running("broker", "1", ProcessId(os.getpid(), "long ago"), "1.log"),
    ]
    state = State(default_cluster(), running)
    write_state(tmp_path, state)
    assert read_state(tmp_path) == state
    assert [one.name for one in running_state(tmp_path).alive()] == ["0"]


def test_what_was_forgotten_is_not_there(tmp_path: Path):
    write_state(tmp_path, State(default_cluster(), []))
    forget_state(tmp_path)
    forget_state(tmp_path)
    assert read_state(tmp_path) is None


def test_a_directory_in_which_nothing_runs_is_said_to_be_so(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"no cluster was started in .*; start one with `holdfast up`"):
        running_state(tmp_path / "nowhere")


def test_a_state_that_is_broken_is_not_taken_for_nothing(tmp_path: Path):
    (tmp_path / "cluster.json").write_text("{")
    with pytest.raises(ConfigError, match=r"cluster\.json cannot be read"):
        read_state(tmp_path)


def test_two_commands_at_once_are_told(tmp_path: Path):
    with (
        locked(tmp_path),
        pytest.raises(ConfigError, match="another command is starting or stopping a cluster"),
        locked(tmp_path),
    ):
        pass
    with locked(tmp_path):
        pass


def test_a_state_directory_that_cannot_be_made_is_refused(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be used"), locked(tmp_path / "file" / "state"):
        pass
