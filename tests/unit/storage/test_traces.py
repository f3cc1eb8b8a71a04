"""A trace is a directory of files, or one file; what cannot be read or written says so in a sentence."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.model.trace import Event, TraceError, encode_line
from holdfast.storage.traces import TraceWriter, go_on, read_trace, write_trace


def row(node: str, index: int, run: str = "r") -> Event:
    return Event(run, node, index, 0, "attach")


def test_what_is_written_to_a_directory_is_read_from_it(tmp_path: Path):
    events = [row("ann", 0), row("ann", 1), row("bob", 0)]
    assert write_trace(tmp_path / "runs" / "first", events) == tmp_path / "runs" / "first" / "trace.jsonl"
    assert read_trace(tmp_path / "runs" / "first") == events


def test_what_is_written_to_a_file_is_read_from_it(tmp_path: Path):
    file = tmp_path / "deep" / "ann.jsonl"
    assert write_trace(str(file), [row("ann", 0)]) == file
    assert read_trace(str(file)) == [row("ann", 0)]


def test_writing_a_whole_trace_replaces_the_one_before(tmp_path: Path):
    write_trace(tmp_path, [row("ann", 0), row("ann", 1)])
    write_trace(tmp_path, [row("bob", 0)])
    assert read_trace(tmp_path) == [row("bob", 0)]


def test_a_writer_goes_on_after_what_the_file_holds(tmp_path: Path):
    file = tmp_path / "ann.jsonl"
    with TraceWriter(file) as writer:
        writer.append(row("ann", 0))
    with TraceWriter(file) as writer:
        writer.extend([row("ann", 1), row("ann", 2)])
    assert [event.index for event in read_trace(file)] == [0, 1, 2]


def test_a_writer_that_begins_afresh_forgets_what_the_file_held(tmp_path: Path):
    write_trace(tmp_path, [row("ann", 0)])
    with TraceWriter(tmp_path, fresh=True) as writer:
        writer.append(row("bob", 0))
    assert read_trace(tmp_path) == [row("bob", 0)]


def test_rows_are_buffered_until_the_flush(tmp_path: Path):
    writer = TraceWriter(tmp_path / "ann.jsonl")
    writer.append(row("ann", 0))
    assert writer.path.read_bytes() == b""
    writer.flush()
    assert writer.path.read_bytes() == encode_line(row("ann", 0))
    writer.close()


def test_a_full_buffer_is_written_by_itself(tmp_path: Path):
    with TraceWriter(tmp_path / "ann.jsonl", buffer_bytes=64) as writer:
        writer.extend(row("ann", index) for index in range(10))
        assert writer.path.stat().st_size > 0


def test_an_error_inside_the_block_keeps_the_rows_so_far(tmp_path: Path):
    def rows() -> Iterator[Event]:
        yield row("ann", 0)
        raise KeyError

    with pytest.raises(KeyError), TraceWriter(tmp_path / "ann.jsonl") as writer:
        writer.extend(rows())
    writer.close()
    assert read_trace(tmp_path) == [row("ann", 0)]


def test_all_files_of_a_directory_are_put_together_by_run_node_and_index(tmp_path: Path):
    write_trace(tmp_path / "2.jsonl", [row("ann", 0), row("bob", 1), row("zoe", 0, "a")])
    write_trace(tmp_path / "1.jsonl", [row("ann", 10), row("ann", 9), row("bob", 0)])
    (tmp_path / "notes.txt").write_text("not a trace")
    assert [(event.run, event.node, event.index) for event in read_trace(tmp_path)] == [
        ("a", "zoe", 0),
        ("r", "ann", 0),
        ("r", "ann", 9),
        ("r", "ann", 10),
        ("r", "bob", 0),
        ("r", "bob", 1),
    ]


def test_empty_lines_and_files_are_passed_over(tmp_path: Path):
    (tmp_path / "ann.jsonl").write_bytes(b"\n" + encode_line(row("ann", 0)) + b"  \r\n\n")
    (tmp_path / "bob.jsonl").touch()
    assert read_trace(tmp_path) == [row("ann", 0)]


def test_a_last_line_without_its_newline_is_a_line(tmp_path: Path):
    (tmp_path / "ann.jsonl").write_bytes(encode_line(row("ann", 0)).rstrip())
    assert read_trace(tmp_path) == [row("ann", 0)]


def test_a_path_where_nothing_is_says_what_to_name(tmp_path: Path):
    with pytest.raises(TraceError, match=r"there is no trace at .*nowhere; name a \.jsonl file, or a directory"):
        read_trace(tmp_path / "nowhere")


def test_a_directory_without_a_trace_says_so(tmp_path: Path):
    (tmp_path / "trace.json").touch()
    with pytest.raises(TraceError, match=r"there is no trace in the directory .*: it has no file that ends in \.jsonl"):
        read_trace(tmp_path)


def test_a_line_that_is_no_row_is_named_by_file_and_number(tmp_path: Path):
    write_trace(tmp_path / "ann.jsonl", [row("ann", 0)])
    (tmp_path / "bob.jsonl").write_bytes(encode_line(row("bob", 0)) + b"\n" + encode_line(row("bob", 1))[:20])
    with pytest.raises(TraceError, match=r"bob\.jsonl:3: a line of a trace is one JSON object, and this is not"):
        read_trace(tmp_path)


def test_a_column_that_is_missing_is_named_with_its_line(tmp_path: Path):
    (tmp_path / "ann.jsonl").write_bytes(encode_line(row("ann", 0)).replace(b'"node":"ann",', b""))
    with pytest.raises(TraceError, match=r"ann\.jsonl:1: column 'node' is missing; every row has run, node"):
        read_trace(tmp_path)


def test_a_place_that_cannot_be_written_is_refused_in_a_sentence(tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(TraceError, match=r"^cannot write the trace to .*trace\.jsonl: .*; name a directory that can"):
        TraceWriter(tmp_path / "file")


def test_a_file_that_cannot_be_read_is_refused_in_a_sentence(tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(TraceError, match=r"^there is no trace at .*ann\.jsonl; name a"):
        read_trace(tmp_path / "file" / "ann.jsonl")


def test_whoever_goes_on_with_a_trace_numbers_on_and_drops_half_a_line_that_a_killed_writer_left(tmp_path: Path):
    file = tmp_path / "ann.jsonl"
    assert go_on(file) == 0
    with TraceWriter(file) as writer:
        writer.extend([row("ann", 0), row("ann", 1)])
    assert go_on(file) == 2
    with file.open("ab") as killed:
        killed.write(encode_line(row("ann", 2))[:-9])
    assert go_on(file) == 2
    assert read_trace(file) == [row("ann", 0), row("ann", 1)]


def test_a_trace_of_nothing_but_half_a_line_begins_anew(tmp_path: Path):
    file = tmp_path / "ann.jsonl"
    file.write_bytes(b'{"run": "r", "no')
    assert go_on(file) == 0
    assert file.read_bytes() == b""
