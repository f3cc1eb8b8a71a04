"""One end of a link, as scripted: numbers, resumption, credit, and what a peer may not do."""

import pytest
from msgspec.structs import force_setattr

from holdfast.model.batches import AlteredBatch, make_batch
from holdfast.model.costs import cost_bytes
from holdfast.model.errors import PeerViolation
from holdfast.model.messages import LAP, Ack, ConfirmAck, Data, Frame, Publish, SessionMessage, ViewAck
from holdfast.protocols.config import LinkConfig
from holdfast.protocols.links import CreditExceeded, Link, LinkError, LinkState

SMALL = cost_bytes(ConfirmAck(1))
CONFIG = LinkConfig(window_bytes=4 * SMALL, ack_frames=3)


def message(number: int) -> SessionMessage:
    return ConfirmAck(number)


def large(number: int, size: int) -> Publish:
    """A publication that costs that much."""
    return Publish(make_batch("p", number, "t", 0, [bytes(size - 64)]))


def link(dialler: bool = True) -> Link:
    return Link("peer", "broker", 7, dialler, CONFIG, 0.0)


def opened(credit: int = 100 * SMALL) -> Link:
    one = link()
    one.opening()
    assert one.open(0, credit, 0.0) == []
    return one


def numbers(frames: list[Frame]) -> list[int]:
    return [frame.seq for frame in frames if isinstance(frame, Data)]


# ------------------------------------------------------------------------------------------------------- numbering


def test_messages_are_numbered_from_one():
    one = opened()
    assert [one.send(message(tag)) for tag in (5, 6)] == [Data(1, message(5)), Data(2, message(6))]
    assert (one.queued, one.acked) == (2, 0)


def test_what_is_sent_before_there_is_a_connection_waits_for_the_peers_word():
    one = link()
    assert one.send(message(1)) is None
    one.opening()
    assert one.send(message(2)) is None
    assert one.backlog_bytes == 2 * SMALL
    assert one.open(0, 100 * SMALL, 0.0) == [Data(1, message(1)), Data(2, message(2))]
    assert one.backlog_bytes == 0


def test_messages_come_out_in_their_order_and_a_repeat_does_not():
    one = opened()
    assert one.on_data(Data(1, message(5))) == message(5)
    assert one.on_data(Data(2, message(6))) == message(6)
    assert one.on_data(Data(1, message(5))) is None
    assert one.on_data(Data(2, message(6))) is None
    assert one.received == 2


def test_numbers_go_round_and_a_skip_is_told_anywhere_on_the_way():
    one, other = opened(), opened()
    for number in range(1, 3 * LAP):
        sent = one.send(message(1))
        assert sent is not None
        assert sent.seq == number % LAP
        one.on_ack(number, (number + 100) * SMALL, 0.0)
        with pytest.raises(LinkError, match=f"sent message {number + 1} after {number - 1}"):
            other.on_data(Data((number + 1) % LAP, message(2)))
        assert other.on_data(sent) == message(1)
        assert other.on_data(sent) is None
        assert other.received == number
        other.consume(message(1))
        other.acknowledgement(grant=True, eager=True)


# --------------------------------------------------------------------------------------------------- acknowledging


def test_what_was_sent_is_kept_until_it_is_acknowledged():
    one = opened()
    for number in range(1, 6):
        one.send(message(number))
    assert one.unacknowledged_bytes == 5 * SMALL
    assert one.on_ack(3, 100 * SMALL, 1.0) == []
    assert one.unacknowledged_bytes == 2 * SMALL
    assert one.on_ack(5, 100 * SMALL, 1.0) == []
    assert (one.unacknowledged_bytes, one.acked) == (0, 5)


def test_an_acknowledgement_that_says_less_than_an_earlier_one_changes_nothing():
    one = opened()
    one.send(message(1))
    one.on_ack(1, 100 * SMALL, 1.0)
    assert one.on_ack(0, SMALL, 2.0) == []
    assert (one.acked, one.credit_out, one.progress_at) == (1, 100 * SMALL, 1.0)


def test_an_acknowledgement_is_worth_a_frame_after_so_many_messages():
    one = opened()
    for number in (1, 2):
        one.on_data(Data(number, message(number)))
        assert one.acknowledgement(grant=True, eager=False) is None
    one.on_data(Data(3, message(3)))
    assert one.acknowledgement(grant=True, eager=False) == Ack(3, CONFIG.window_bytes)
    assert one.acknowledgement(grant=True, eager=True) is None


def test_an_acknowledgement_is_worth_a_frame_when_a_quarter_of_the_window_is_free_again():
    one = opened()
    one.on_data(Data(1, message(1)))
    one.consume(message(1))
    assert one.acknowledgement(grant=True, eager=False) == Ack(1, CONFIG.window_bytes + SMALL)


def test_who_is_in_a_hurry_acknowledges_whatever_there_is():
    one = opened()
    one.on_data(Data(1, message(1)))
    assert one.owes(grant=True)
    assert one.acknowledgement(grant=True, eager=True) == Ack(1, CONFIG.window_bytes)
    assert not one.owes(grant=True)


def test_without_a_connection_nothing_is_acknowledged():
    one = opened()
    for number in (1, 2, 3):
        one.on_data(Data(number, message(number)))
    one.closed()
    assert one.acknowledgement(grant=True, eager=True) is None


# ---------------------------------------------------------------------------------------------------------- credit


def test_a_message_leaves_if_it_begins_inside_the_credit_and_the_next_one_waits():
    one = opened(credit=SMALL + 1)
    assert one.send(large(1, SMALL)) is not None
    assert one.send(large(2, 10 * SMALL)) is not None
    assert one.send(large(3, SMALL)) is None
    assert one.backlog_bytes == SMALL


def test_a_message_larger_than_the_window_leaves_when_all_before_it_is_consumed():
    one = opened(credit=CONFIG.window_bytes)
    size = 3 * CONFIG.window_bytes
    assert one.send(large(1, size)) is not None
    assert one.send(large(2, size)) is None
    assert one.on_ack(1, size, 0.0) == []
    assert numbers(one.on_ack(1, size + CONFIG.window_bytes, 0.0)) == [2]


def test_what_waited_for_credit_leaves_in_order_as_far_as_it_goes():
    one = opened(credit=SMALL)
    sent = [one.send(message(number)) for number in range(1, 6)]
    assert [data is not None for data in sent] == [True, False, False, False, False]
    assert numbers(one.on_ack(1, 3 * SMALL, 0.0)) == [2, 3]
    assert one.backlog_bytes == 2 * SMALL
    assert numbers(one.on_ack(3, 9 * SMALL, 0.0)) == [4, 5]


def test_nothing_overtakes_what_waits_however_small_it_is():
    one = opened(credit=SMALL)
    one.send(message(1))
    one.send(large(2, 50 * SMALL))
    assert one.send(message(3)) is None
    assert numbers(one.on_ack(1, SMALL + 1, 0.0)) == [2]


def test_credit_is_a_window_ahead_of_what_was_consumed():
    one = opened()
    for number in (1, 2, 3):
        one.on_data(Data(number, message(number)))
    assert one.acknowledgement(grant=True, eager=True) == Ack(3, CONFIG.window_bytes)
    one.consume(message(1))
    one.consume(message(2))
    assert one.acknowledgement(grant=True, eager=True) == Ack(3, CONFIG.window_bytes + 2 * SMALL)


def test_without_a_grant_arrivals_are_acknowledged_and_credit_stays():
    one = opened()
    for number in (1, 2, 3):
        one.on_data(Data(number, message(number)))
        one.consume(message(number))
    assert one.acknowledgement(grant=False, eager=True) == Ack(3, CONFIG.window_bytes)
    assert not one.owes(grant=False)
    assert one.owes(grant=True)
    assert one.acknowledgement(grant=True, eager=True) == Ack(3, CONFIG.window_bytes + 3 * SMALL)


# ------------------------------------------------------------------------------------------------------ resumption


def test_after_a_loss_what_the_peer_lacks_is_sent_again_and_nothing_else():
    one = opened()
    for number in range(1, 6):
        one.send(message(number))
    one.closed()
    assert one.backlog_bytes == 5 * SMALL
    one.opening()
    assert one.open(3, 100 * SMALL, 1.0) == [Data(4, message(4)), Data(5, message(5))]
    assert one.unacknowledged_bytes == 2 * SMALL


def test_acknowledgements_that_were_lost_are_made_up_for_by_what_the_peer_says_it_has():
    one = opened()
    for number in range(1, 4):
        one.send(message(number))
    one.closed()
    one.opening()
    assert one.open(3, 100 * SMALL, 1.0) == []
    assert (one.acked, one.unacknowledged_bytes) == (3, 0)


def test_what_is_sent_while_the_connection_is_gone_goes_behind_what_was_lost():
    one = opened()
    one.send(message(1))
    one.closed()
    assert one.send(message(2)) is None
    one.opening()
    assert numbers(one.open(0, 100 * SMALL, 1.0)) == [1, 2]


def test_the_numbers_of_what_arrives_go_on_over_a_new_connection():
    one = opened()
    one.on_data(Data(1, message(1)))
    one.closed()
    one.opening()
    one.open(0, 0, 1.0)
    assert one.on_data(Data(1, message(1))) is None
    assert one.on_data(Data(2, message(2))) == message(2)


def test_credit_of_an_earlier_connection_is_not_lost():
    one = opened(credit=10 * SMALL)
    one.closed()
    one.opening()
    one.open(0, SMALL, 1.0)
    assert one.credit_out == 10 * SMALL


def test_what_was_said_in_hello_or_welcome_need_not_be_acknowledged_again():
    one = opened()
    one.on_data(Data(1, message(1)))
    one.closed()
    one.opening()
    one.open(0, 0, 1.0)
    assert one.acknowledgement(grant=True, eager=True) is None


def test_a_session_can_be_resumed_once_both_know_of_it():
    one, known = link(), []
    one.opening()
    known.append(one.resumable)
    one.closed()
    known.append(one.resumable)
    one.opening()
    one.open(0, 0, 0.0)
    known.append(one.resumable)
    one.closed()
    known.append(one.resumable)
    assert known == [False, False, True, True]
    assert one.state is LinkState.CLOSED


# -------------------------------------------------------------------------------------------------------- violations


def test_a_number_that_was_skipped_is_the_peers_fault():
    one = opened()
    with pytest.raises(LinkError, match="peer sent message 2 after 0: something was skipped") as violation:
        one.on_data(Data(2, message(2)))
    assert isinstance(violation.value, PeerViolation)
    assert one.received == 0


def test_a_message_that_begins_outside_its_credit_is_the_peers_fault():
    one = opened()
    for number in range(1, 5):
        assert one.on_data(Data(number, message(number))) == message(number)
    sentence = f"peer sent message 5 after {4 * SMALL} bytes, with credit for {4 * SMALL}: it has to wait for more"
    with pytest.raises(CreditExceeded, match=sentence):
        one.on_data(Data(5, message(5)))
    assert (one.received, one.received_bytes) == (4, 4 * SMALL)


def test_credit_counts_when_it_is_granted_not_when_a_message_is_consumed():
    one = opened()
    for number in range(1, 5):
        one.on_data(Data(number, message(number)))
        one.consume(message(number))
    with pytest.raises(CreditExceeded):
        one.on_data(Data(5, message(5)))
    assert one.acknowledgement(grant=True, eager=True) == Ack(4, 8 * SMALL)
    assert one.on_data(Data(5, message(5))) == message(5)


def test_a_message_may_end_outside_its_credit_if_it_begins_inside():
    one = opened()
    assert one.on_data(Data(1, message(1))) is not None
    assert one.on_data(Data(2, large(1, 100 * SMALL))) is not None
    with pytest.raises(CreditExceeded):
        one.on_data(Data(3, message(3)))


def test_what_costs_nothing_needs_no_credit():
    one = opened()
    for number in range(1, 5):
        one.on_data(Data(number, message(number)))
    assert one.on_data(Data(5, ViewAck(1))) == ViewAck(1)


def test_what_is_sent_again_after_a_resumption_is_counted_once():
    one = opened()
    for number in range(1, 5):
        one.on_data(Data(number, message(number)))
    one.closed()
    one.open(0, 0, 1.0)
    assert [one.on_data(Data(number, message(number))) for number in range(1, 5)] == [None] * 4
    assert one.received_bytes == 4 * SMALL


def test_no_more_is_under_way_than_may_be_kept_whatever_the_peer_grants():
    one = Link("peer", "broker", 7, True, LinkConfig(unacknowledged_bytes_max=3 * SMALL), 0.0)
    one.opening()
    one.open(0, 1 << 60, 0.0)
    assert [one.send(message(number)) is not None for number in range(1, 6)] == [True, True, True, False, False]
    assert one.backlog_bytes == 2 * SMALL
    assert numbers(one.on_ack(0, 1 << 61, 0.0)) == []
    assert numbers(one.on_ack(2, 1 << 61, 0.0)) == [4, 5]


def test_an_acknowledgement_of_what_was_never_sent_is_the_peers_fault():
    one = opened()
    one.send(message(1))
    with pytest.raises(LinkError, match="peer acknowledged message 2, but only 1 were sent to it"):
        one.on_ack(2, 0, 0.0)
    assert one.unacknowledged_bytes == SMALL


@pytest.mark.parametrize("received", [1, 4])
def test_a_peer_that_has_less_than_it_acknowledged_or_more_than_was_sent_cannot_resume(received: int):
    one = opened()
    for number in range(1, 4):
        one.send(message(number))
    one.on_ack(2, 100 * SMALL, 0.0)
    one.closed()
    one.opening()
    with pytest.raises(LinkError, match=f"it has {received} messages of this session; it acknowledged 2 and 3 were"):
        one.open(received, 0, 1.0)


def test_invariants_notice_what_is_missing():
    one = opened()
    one.send(message(1))
    one.send(message(2))
    one.check_invariants()
    one.sent.popleft()
    with pytest.raises(AssertionError, match="link to peer holds"):
        one.check_invariants()


def test_invariants_notice_what_was_consumed_and_never_came():
    one = opened()
    one.consume(message(1))
    with pytest.raises(AssertionError, match="consumed what never came"):
        one.check_invariants()


# ---------------------------------------------------------------------------------------------------------- urgent


def test_an_urgent_message_needs_no_credit_and_overtakes_what_waits_for_it():
    one = opened(credit=SMALL)
    assert one.send(message(1)) == Data(1, message(1))
    assert one.send(message(2)) is None
    assert one.send(ViewAck(9)) == Data(2, ViewAck(9))
    assert one.send(ViewAck(10)) == Data(3, ViewAck(10))
    assert one.on_ack(3, 2 * SMALL, 0.0) == [Data(4, message(2))]
    one.check_invariants()


def test_an_urgent_message_stays_behind_what_was_on_the_wire_before_a_reset():
    one = opened()
    one.send(message(1))
    one.send(message(2))
    one.closed()
    one.send(message(3))
    one.send(ViewAck(9))
    one.opening()
    frames = one.open(1, 100 * SMALL, 0.0)
    assert frames == [Data(2, message(2)), Data(3, ViewAck(9)), Data(4, message(3))]
    one.check_invariants()


# ---------------------------------------------------------------------------------------------- what waits in memory


def test_a_link_that_resumes_does_not_send_what_was_altered_in_its_memory():
    """The peer would refuse it, and end the connection, for ever: whoever holds it has to say so and stop."""
    one = opened()
    for number in (1, 2, 3):
        assert one.send(large(number, 100)) is not None
    kept = large(4, 100)
    kept.batch.seal()
    one.send(kept)
    force_setattr(kept.batch, "payloads", b"!" * 36)
    one.closed()
    one.opening()
    with pytest.raises(AlteredBatch, match="batch p#4 was altered in the memory of this process"):
        one.open(3, 1000, 0.0)


def test_what_the_peer_has_need_not_be_what_it_was():
    one = opened()
    had = large(1, 100)
    had.batch.seal()
    one.send(had)
    force_setattr(had.batch, "payloads", b"!" * 36)
    one.closed()
    one.opening()
    assert one.open(1, 1000, 0.0) == []
