"""Requests of a client that are under way, found by number and by subscription."""

from typing import Never

from holdfast.protocols.client_requests import UNKNOWN, ClientRequest, ClientRequests


class Unsearched(dict[int, ClientRequest]):
    """Found by number, and never looked through."""

    def __iter__(self) -> Never:
        raise AssertionError("all requests are looked at")

    items = values = __iter__


def test_a_request_is_answered_once():
    requests = ClientRequests()
    requests.add(1, "confirm", "t", "7")
    assert (1 in requests, len(requests)) == (True, 1)
    assert requests.answered(1) == ("confirm", "t", "7")
    assert requests.answered(1) == UNKNOWN
    assert not requests


def test_the_requests_for_a_subscription_that_is_taken_back_are_found_without_a_look_at_the_others():
    requests = ClientRequests()
    for token, pattern in enumerate(["t", "u", "t", "t"]):
        requests.add(token, "subscribe", pattern, "")
    assert requests.answered(2) == ("subscribe", "t", "")
    requests._by_token = Unsearched(requests._by_token)
    requests.leave("t", "")
    requests.leave("t", "")
    verbs = [requests.answered(token)[0] for token in (0, 1, 3)]
    assert verbs == ["subscribe and leave", "subscribe", "subscribe and leave"]
    assert requests._subscribing == {}


def test_a_new_session_begins_without_requests():
    requests = ClientRequests()
    requests.add(1, "subscribe", "t", "")
    requests.clear()
    assert not requests
    assert requests.answered(1) == UNKNOWN
