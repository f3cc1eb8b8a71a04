"""What an application may answer to a message that it acknowledges itself."""

from typing import Any

import pytest

from holdfast.client.manual import Handed, HandedMessage, ManualMessage
from holdfast.model.errors import LocalMisuse
from holdfast.model.guarantees import Guarantee


class Answers:
    """Takes answers, and remembers them."""

    def __init__(self) -> None:
        self.given: list[tuple[str, object]] = []

    def ack(self, message: HandedMessage, cumulative: bool) -> None:  # noqa: ARG002
        self.given.append(("ack", cumulative))

    def nack(self, message: HandedMessage, delay_s: float) -> None:  # noqa: ARG002
        self.given.append(("nack", delay_s))


def message_for(answers: Answers) -> ManualMessage:
    handed = Handed(("alice", 1), 1)
    return ManualMessage("a", b"x", "alice", 1, Guarantee.CAUSAL, (), {}, handed=handed, replies=answers)


@pytest.mark.parametrize("delay_s", ["5", None, [], True, float("nan"), -1, 1e300, b"1", {}], ids=repr)
def test_a_delay_that_is_no_time_is_refused_and_nothing_is_given_back(delay_s: Any):
    answers = Answers()
    with pytest.raises(LocalMisuse, match=r"delay_s is from 0 to 604800 seconds, not .*Nothing was given back"):
        message_for(answers).nack(delay_s)
    assert answers.given == []


def test_a_message_is_given_back_after_a_time_and_acknowledged_at_once():
    answers = Answers()
    message_for(answers).nack(2)
    message_for(answers).ack(cumulative=True)
    assert answers.given == [("nack", 2), ("ack", True)]
