"""The virtual clock and its queue."""

import subprocess
import sys
from typing import Any

import pytest

from holdfast.simulation.kernel import Kernel, Runaway, stream


class Diary:
    """Writes down what happened when."""

    def __init__(self) -> None:
        self.kernel = Kernel()
        self.lines: list[tuple[float, Any]] = []

    def note(self, what: Any) -> None:
        self.lines.append((self.kernel.now, what))


def test_things_happen_at_their_time_and_the_clock_stands_where_it_was_told_to():
    diary = Diary()
    diary.kernel.at(3.0, diary.note, "later")
    diary.kernel.at(1.0, diary.note, "sooner")
    diary.kernel.run(2.0)
    assert diary.lines == [(1.0, "sooner")]
    assert diary.kernel.now == 2.0
    diary.kernel.run(3.0)
    assert diary.lines == [(1.0, "sooner"), (3.0, "later")]


def test_what_falls_on_one_time_happens_in_the_order_in_which_it_was_asked_for():
    diary = Diary()
    for number in range(50):
        diary.kernel.at(1.0, diary.note, number)
    diary.kernel.run(1.0)
    assert [what for _, what in diary.lines] == list(range(50))


def test_the_past_cannot_be_asked_for_any_more_and_happens_at_once():
    diary = Diary()
    diary.kernel.run(5.0)
    diary.kernel.at(1.0, diary.note, "belated")
    diary.kernel.run(5.0)
    assert diary.lines == [(5.0, "belated")]


def test_what_is_cancelled_never_happens_and_is_not_counted():
    diary = Diary()
    number = diary.kernel.after(1.0, diary.note, "unwanted")
    diary.kernel.after(1.0, diary.note, "wanted")
    diary.kernel.cancel(number)
    diary.kernel.run(2.0)
    assert [what for _, what in diary.lines] == ["wanted"]
    assert diary.kernel.events == 1


def test_an_instant_ends_once_after_everything_that_is_due_at_its_time():
    diary = Diary()
    kernel = diary.kernel

    def first(_: object) -> None:
        kernel.at_end(lambda _: diary.note("end"))
        kernel.after(0.0, diary.note, "due at the same time")

    kernel.at(1.0, first)
    kernel.at(1.0, diary.note, "second")
    kernel.at(2.0, diary.note, "next")
    kernel.run(9.0)
    assert diary.lines == [(1.0, "second"), (1.0, "due at the same time"), (1.0, "end"), (2.0, "next")]


def test_what_an_end_makes_due_happens_before_the_instant_ends_again():
    diary = Diary()
    kernel = diary.kernel

    def end(_: object) -> None:
        diary.note("end")
        kernel.after(0.0, diary.note, "caused")
        kernel.at_end(lambda _: diary.note("end again"))

    kernel.at(1.0, lambda _: kernel.at_end(end))
    kernel.at(1.0, lambda _: kernel.at_end(lambda _: diary.note("another end")))
    kernel.run(1.0)
    assert [what for _, what in diary.lines] == ["end", "another end", "caused", "end again"]


def test_removed_entries_are_gone_and_the_rest_keeps_its_order():
    diary = Diary()
    for number in range(20):
        diary.kernel.at(float(20 - number), diary.note, number)
    diary.kernel.remove(lambda entry: entry[3] % 2 == 0)
    diary.kernel.run(30.0)
    assert [what for _, what in diary.lines] == list(range(19, 0, -2))


def test_a_circle_without_end_is_reported():
    kernel = Kernel()

    def again(_: object) -> None:
        kernel.after(1e-9, again)

    kernel.at(0.0, again)
    with pytest.raises(Runaway, match=r"1001 events and no end"):
        kernel.run(1.0, events_max=1000)


def test_every_purpose_has_its_own_chance_and_every_seed_another():
    draws = [stream(seed, purpose).random() for seed in (1, 2) for purpose in ("latency", "faults")]
    assert len(set(draws)) == 4
    assert stream(1, "latency").random() == draws[0]


def test_chance_does_not_depend_on_the_interpreters_hash_seed():
    program = "from holdfast.simulation.kernel import stream; print(stream(7, 'x').getrandbits(64))"
    said = {
        subprocess.run(
            [sys.executable, "-c", program], env={"PYTHONHASHSEED": seed}, check=True, capture_output=True, text=True
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert said == {str(stream(7, "x").getrandbits(64))}
