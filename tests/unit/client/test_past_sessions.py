"""What becomes of publications when the session of a client is lost, and another one follows."""

from random import Random

from holdfast.client.backoff import Backoff
from holdfast.client.errors import SessionLost
from holdfast.client.past_sessions import PastSessions
from holdfast.model.batches import Batch, make_batch

LOST = SessionLost("the broker was restarted")


def batch(first: int, count: int = 1) -> Batch:
    return make_batch("alice", first, "a", 2, [b"x"] * count)


def test_what_left_and_was_not_accepted_is_in_doubt_and_nothing_else():
    past = PastSessions()
    past.lose(accepted=3, next_seq=9, never_sent=[batch(6, 3)], lost=LOST)
    assert [past.doubt_about(seq) for seq in range(3, 7)] == [None, LOST, LOST, None]
    assert past.unsaid is LOST


def test_what_never_left_goes_first_under_its_numbers_if_they_are_free():
    past = PastSessions()
    past.lose(accepted=5, next_seq=9, never_sent=[batch(6, 3)], lost=LOST)
    assert past.add(batch(1, 2)) == 9
    assert past.first_waiting == 6
    assert [one.count for one in past.begin(6)] == [3, 2]
    assert [past.present(seq) for seq in (5, 6, 10, 11)] == [5, 6, 10, 11]
    assert past.unsaid is None


def test_what_never_left_is_renumbered_where_its_numbers_are_not_free():
    past = PastSessions()
    past.lose(accepted=5, next_seq=8, never_sent=[batch(6, 2)], lost=LOST)
    past.begin(100)
    assert [past.present(seq) for seq in (5, 6, 7, 8, 100)] == [5, 100, 101, 8, 100]
    assert (past.loss_before(5), past.loss_before(100)) == (LOST, None)


def test_renumbered_twice_a_publication_is_still_found():
    past = PastSessions()
    past.lose(accepted=5, next_seq=8, never_sent=[batch(6, 2)], lost=LOST)
    past.begin(100)
    past.lose(accepted=99, next_seq=102, never_sent=[batch(100, 2)], lost=LOST)
    past.begin(500)
    assert [past.present(seq) for seq in (6, 7)] == [500, 501]


def test_attempts_to_come_back_are_less_and_less_frequent_and_spread_by_chance():
    backoff = Backoff(Random(7), first_s=0.1, longest_s=1.0)
    for planned in (0.1, 0.2, 0.4, 0.8, 1.0, 1.0):
        assert 0.5 * planned <= backoff.next_s() <= 1.5 * planned
