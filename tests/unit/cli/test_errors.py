"""What cannot be is refused with one clear sentence and exit code 2, never with a traceback."""

from pathlib import Path

import pytest

from tests.unit.cli.command_line import CommandLine

NOBODY = "holdfast://127.0.0.1:1"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["bogus"], "No such command 'bogus'."),
        (["pub"], "Missing argument 'topic'."),
        (
            ["pub", "a", "x", "--guarantee", "strong"],
            "unknown guarantee 'strong': choose one of eventual, fifo, causal,",
        ),
        (["pub", "bank/+", "x"], "Topic 'bank/+' has a wildcard in its level '+';"),
        (["pub", "a", "x", "--attr", "amount"], "--attr 'amount' is no attribute; write name=value,"),
        (["pub", "a", "x", "--count", "0"], "Invalid value for '--count'"),
        (["pub", "a", "x", "--address", "http://127.0.0.1"], "the address 'http://127.0.0.1' has another scheme;"),
        (["pub", "a", "x", "--address", "127.0.0.1:99999"], "the address '127.0.0.1:99999' has the port 99999;"),
        (["pub", "a", "x", "--address", NOBODY], "no broker answers "),
        (
            ["pub", "a", "x", "--address", NOBODY, "--name", "a\nb"],
            "the client's name 'a\\nb' has characters that cannot",
        ),
        (["sub", "a//b"], "Topic pattern 'a//b' has an empty level (level 2); write 'a/b'."),
        (["sub", "a/#/b"], "Topic pattern 'a/#/b' goes on after '#',"),
        (["sub", "a", "--where", "x >", "--address", NOBODY], "A value (a number, a quoted string, true or false) is"),
        (["sub", "a", "--address", NOBODY], "no broker answers "),
        (["sub", "a", "--durable", "", "--address", NOBODY], "sub(--durable=''): a durable subscription has a name"),
        (["sub", "a", "--slow", "never", "--address", NOBODY], "subscribe(slow='never'): slow is one of 'block',"),
        (["sub", "a", "--slow", "block", "--durable", "n", "--address", NOBODY], "subscribe(slow='block'): a durable"),
        (["sub", "a", "--from", "0", "--address", NOBODY], "Invalid value for '--from': Input should be greater"),
        (["broker", "b", "--protocol", "gossip"], "unknown protocol 'gossip': choose one of ginger"),
        (["broker", "b", "--parent", "root"], "--parent 'root' cannot be read; write NAME@HOST:PORT,"),
        (["campaign", "--protocol", "gossip"], "unknown protocol 'gossip': choose one of ginger"),
        (["campaign", "--seeds", "5..1"], "--seeds '5..1' has no seed in it; write the smaller one first,"),
        (["campaign", "--seeds", "many"], "--seeds 'many' cannot be read; write a number, or two as in 1..200."),
        (
            ["campaign", "--fault", "fire"],
            "--fault 'fire' is no kind of fault; choose among reset, cut, freeze, slow, flip.",
        ),
        (["bench", "--only", "warp"], "no measurement has 'warp' in its title;"),
        (["demo", "--operations", "0"], "Invalid value for '--operations'"),
        (["broker", "", "--port", "0"], "a broker has a name of 1 to 128 bytes that can be printed, not ''."),
        (["repository", "", "--stream", "a"], "a repository has a name of 1 to 128 bytes that can be printed, not"),
        (["topics", "forget", "billing", "a//b", "--address", NOBODY], "Topic pattern 'a//b' has an empty level"),
        (["sub", "a", "--raw", "--json", "--address", NOBODY], "--raw prints payloads alone, and --json everything:"),
        (["store", "compact", "sqlite:absent/x.db"], "there is no store at absent/x.db; name one that a repository"),
        (["store", "mend", "segments:absent", "--from", "segments:b"], "there is no store at absent; name one that"),
        (["campaign", "--seeds", "1", "--master", "elsewhere"], "--master 'elsewhere' is no place for Spark; write"),
        (["demo", "--calm", "--kill", "1"], "--calm kills nobody, and --kill somebody: choose one of them."),
        (["pipeline", "replay", "absent"], "there is no archive at absent; `holdfast pipeline archive` writes one."),
        (["pipeline", "metrics", "absent"], "there is no trace at absent; name a file or a directory of one."),
        (["status", "--address", "127.0.0.1:1"], "no broker says how its cluster is; tried 127.0.0.1:1 (nobody is"),
        (["why", "b1", "--address", "http://b1"], "the address 'http://b1' has another scheme;"),
        (["status", "--address", NOBODY, "--state", "here"], "--address asks a cluster elsewhere, and --state one of"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_was_asked_for_cannot_be(holdfast: CommandLine, arguments: list[str], sentence: str):
    ran = holdfast(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"holdfast: {sentence}")
    assert "Traceback" not in ran.err


@pytest.mark.parametrize("group", ["store", "pipeline"])
def test_a_group_without_a_command_shows_its_help_and_says_what_is_missing(holdfast: CommandLine, group: str):
    ran = holdfast(group)
    assert ran.code == 2
    assert ran.err.startswith("holdfast: a command is missing. ")


@pytest.mark.parametrize("command", [["status"], ["why", "b1"], ["pub", "a", "x"], ["sub", "a"], ["topics"]])
def test_the_environment_says_where_the_cluster_is(
    holdfast: CommandLine, monkeypatch: pytest.MonkeyPatch, command: list[str]
):
    monkeypatch.setenv("HOLDFAST_ADDRESS", "127.0.0.1:2")
    ran = holdfast(*command)
    assert (ran.code, ran.out) == (2, "")
    assert "127.0.0.1:2 (nobody is listening there)" in ran.err


@pytest.mark.parametrize("command", [["pub", "a", "x"], ["sub", "a"], ["topics"]])
def test_who_finds_no_broker_is_told_how_to_start_one(holdfast: CommandLine, command: list[str]):
    ran = holdfast(*command, "--address", NOBODY)
    assert ran.err.endswith(
        "(nobody is listening there). Is the cluster running? `holdfast up` starts one on this machine; otherwise give "
        "its address\n"
    )


def test_a_state_directory_that_is_named_counts_more_than_the_environment(
    holdfast: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setenv("HOLDFAST_ADDRESS", "127.0.0.1:2")
    assert holdfast("status", "--state", tmp_path).err.startswith(f"holdfast: no cluster was started in {tmp_path};")


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("up", "There is no cluster file {path};"),
        ("demo", "There is no cluster file {path};"),
        ("simulate", "There is no scenario file {path};"),
        ("audit", "there is no trace at {path};"),
    ],
)
def test_a_file_that_is_not_there_is_named(holdfast: CommandLine, tmp_path: Path, command: str, sentence: str):
    path = tmp_path / "absent"
    ran = holdfast(command, path)
    assert ran.code == 2
    assert ran.err.startswith(f"holdfast: {sentence.format(path=path)}")


@pytest.mark.parametrize("command", ["up", "demo", "simulate"])
def test_a_file_that_is_no_toml_is_named_with_the_place(holdfast: CommandLine, tmp_path: Path, command: str):
    path = tmp_path / "wrong.toml"
    path.write_text("tree = = 3\n")
    ran = holdfast(command, path)
    assert ran.code == 2
    assert ran.err.startswith(f"holdfast: {path} is not TOML: Invalid value (at line 1, column 8).")


def test_an_unknown_key_in_a_cluster_file_is_named(holdfast: CommandLine, tmp_path: Path):
    path = tmp_path / "wrong.toml"
    path.write_text("[brokers.a]\nprot = 7400\n")
    ran = holdfast("up", path, "--state", tmp_path / "state")
    assert ran.code == 2
    assert ran.err.startswith(f"holdfast: {path}: brokers.a.prot: unknown key (did you mean 'port'?);")


@pytest.mark.parametrize("command", ["status", "down"])
def test_a_cluster_that_was_never_started_is_said_to_be_so(holdfast: CommandLine, tmp_path: Path, command: str):
    ran = holdfast(command, "--state", tmp_path)
    assert ran.code == 2
    assert ran.err.startswith(f"holdfast: no cluster was started in {tmp_path}; start one with `holdfast up`")


@pytest.mark.parametrize("command", [["status"], ["why", "b1"]])
def test_a_command_that_can_ask_elsewhere_says_so_where_no_cluster_was_started(
    holdfast: CommandLine, tmp_path: Path, command: list[str]
):
    ran = holdfast(*command, "--state", tmp_path)
    assert ran.err.endswith("; for a cluster that was started elsewhere, give --address.\n")


def test_a_broken_trace_is_named_with_its_line(holdfast: CommandLine, tmp_path: Path):
    (tmp_path / "a.jsonl").write_text('{"run": 1}\n')
    ran = holdfast("audit", tmp_path)
    assert ran.code == 2
    assert ran.err.startswith(f"holdfast: {tmp_path / 'a.jsonl'}:1: ")
