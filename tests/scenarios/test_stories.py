"""Stories of cuts, departures and returning clients, each once a bug or nearly one: see `tests.support.casts`."""

from collections.abc import Callable

import pytest

from tests.support import casts
from tests.support.interleavings import World

STORIES = [
    casts.crossed_cuts,
    casts.changing_participants,
    casts.moved_root,
    casts.leaf_leaves_a_cut,
    casts.leaf_leaves_its_publications,
    casts.receipt_of_a_total_batch,
    casts.number_in_a_lane,
    casts.request_in_a_lane,
    casts.answer_of_the_last_session,
]


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_every_story_ends_well(story: Callable[[], World]):
    assert casts.complaints(story()) == []


def test_crossed_cuts_deliver_everything_to_everybody_who_wanted_it():
    world = casts.crossed_cuts()
    delivered = {name: sorted(client.delivered) for name, client in world.clients.items() if client.delivered}
    assert delivered == {
        "c_b": [("c_e", 1), ("c_r", 1)],
        "c_d": [("c_e", 1), ("c_r", 1)],
        "c_e": [("c_b", 1), ("c_d", 1)],
        "c_b2": [("c_b", 1), ("c_d", 1)],
    }


def test_a_number_that_still_waits_is_not_given_out_again():
    world = casts.number_in_a_lane()
    assert world.clients["c_d"].delivered == [("c_b", 1), ("c_b", 2), ("c_b", 3)]
