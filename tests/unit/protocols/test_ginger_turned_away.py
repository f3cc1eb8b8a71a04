"""Clients that a broker sends on to others, and when they count as lost."""

from holdfast.protocols.ginger.refused_clients import CLIENTS_MAX, RefusedClients


def test_a_client_that_is_sent_on_for_half_of_a_sessions_time_may_be_lost_and_that_is_said_once():
    turned_away = RefusedClients(30.0)
    assert not turned_away.again("c", 0.0)
    assert not turned_away.again("c", 14.9)
    assert turned_away.again("c", 15.0)
    assert not turned_away.again("c", 20.0)


def test_a_client_that_has_not_asked_for_the_time_of_a_session_asks_anew():
    turned_away = RefusedClients(30.0)
    turned_away.again("c", 0.0)
    assert not turned_away.again("c", 31.0)
    assert turned_away.again("c", 46.0)


def test_so_many_clients_are_remembered_and_the_one_that_asked_longest_ago_is_forgotten():
    turned_away = RefusedClients(30.0)
    for number in range(CLIENTS_MAX + 1):
        turned_away.again(f"c{number}", 0.0)
    assert not turned_away.again("c0", 15.0)
    assert turned_away.again("c2", 15.0)
