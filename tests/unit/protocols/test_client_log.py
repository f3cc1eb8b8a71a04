"""When a client knows that a total batch which it asked for is released."""

from typing import Literal

from holdfast.model.batches import Batch, make_batch
from holdfast.model.guarantees import FIFO, TOTAL
from holdfast.model.messages import Levels
from holdfast.protocols.client_log import HERE, ClientLog, flag_of


def published(*guarantees: int) -> ClientLog:
    log = ClientLog(1, "me")
    log.link(HERE)
    for seq, guarantee in enumerate(guarantees, 1):
        log.publish(make_batch("me", seq, "t", guarantee, [b"x"]))
    log.survey()
    return log


def flags(log: ClientLog) -> list[Literal["s", "r", "t", "d"]]:
    return [flag_of(record, "me", log.climbed) for record in log.records()]


def came_back(log: ClientLog, batch: Batch) -> None:
    record = log.find((batch.publisher, batch.first))
    assert record is not None
    log.came(record, HERE)
    log.released(record)
    log.renumber(record)


def test_what_has_no_keys_is_sent_unless_it_may_have_gone_up_behind_something():
    assert flags(published(FIFO, TOTAL, FIFO)) == ["s", "t", "t"]


def test_a_batch_is_released_when_the_broker_has_it_and_all_has_come_that_it_had_sent():
    log = published(TOTAL)
    log.on_levels(HERE, Levels((1, 0), (0, 0)))
    assert log.survey()[HERE].went[0] == 1
    assert flags(log) == ["d"]


def test_until_then_nobody_is_told_that_the_publisher_knows():
    log = published(FIFO, TOTAL, FIFO)
    log.on_levels(HERE, Levels((1, 0), (0, 0)))
    log.survey()
    assert log.flows[HERE].said == Levels((0, 0), (1, 1))
    assert flags(log) == ["s", "t", "t"]


def test_levels_that_have_overtaken_messages_say_nothing_yet():
    log = published(TOTAL)
    log.on_levels(HERE, Levels((1, 0), (2, 0)))
    log.survey()
    assert flags(log) == ["t"]
    log.came(log.append(make_batch("other", 1, "t", FIFO, [b"x"])), HERE)
    log.survey()
    assert flags(log) == ["t", "r"]
    came_back(log, make_batch("me", 1, "t", TOTAL, [b"x"]))
    log.survey()
    assert "t" not in flags(log)
    assert "d" not in flags(log)


def test_what_the_next_broker_does_not_take_is_asked_for_anew_and_keeps_nothing_waiting():
    log = published(TOTAL)
    log.restart(HERE, {}, 0)
    log.came(log.append(make_batch("other", 1, "t", FIFO, [b"x"])), HERE)
    assert log.survey()[HERE].came == (1, 1)
    log.publish(make_batch("me", 1, "t", TOTAL, [b"x"]))
    log.on_levels(HERE, Levels((1, 1), (0, 0)))
    log.survey()
    assert log.flows[HERE].said == Levels((1, 1), (1, 1))


def test_the_first_publication_that_is_kept_is_found_without_a_walk():
    log = published(FIFO, FIFO)
    log.append(make_batch("other", 1, "t", FIFO, [b"x"]))
    assert log.first_kept() == 1
    log.on_levels(HERE, Levels((1, 1), (0, 0)))
    log.survey()
    assert log.first_kept() == 2
    log.on_levels(HERE, Levels((2, 2), (0, 0)))
    log.survey()
    assert log.first_kept() is None


def test_what_is_published_again_may_climb_though_the_record_of_before_is_forgotten():
    """1. c sends #1 to 1, in the place of its broker, which knows nothing of it. 1 dies, and c comes to 5.

    2. If c said that #1 was sent, 5 would take it for turned, and release it in a minority.
    """
    log = published(TOTAL)
    log.restart(HERE, {}, 0)
    log.publish(make_batch("me", 1, "t", TOTAL, [b"x"]))
    log.survey()
    assert [flag_of(record, "me", log.climbed) for record in log.records() if record.pending] == ["t"]
    log.on_levels(HERE, Levels((0, 0), (0, 0)))
    log.survey()
    assert flags(log)[-1] == "t"
