"""Random runs of reliable topics, a few of each class; `holdfast campaign --protocol narada` makes more."""

import os

import pytest

from holdfast.simulation.reliable.author import RELIABLE_CLASSES, ReliableClass
from holdfast.simulation.reliable.swarm import run_reliable

RUNS = int(os.environ.get("SWARM_RUNS", "200")) // len(RELIABLE_CLASSES) + 1


@pytest.mark.parametrize("failure", RELIABLE_CLASSES)
def test_nothing_is_lost_repeated_or_out_of_order(failure: ReliableClass):
    broken = [outcome for seed in range(1, RUNS + 1) if not (outcome := run_reliable(seed, failure)).ok]
    assert not broken, broken[0].complaint()


ONCE_BROKEN: list[tuple[ReliableClass, int, str]] = [
    ("lossy", 8, "a row that overlaps a known one was not learnt"),
    ("repository", 10, "who had heard all rows by gossip never learnt them from its assistant"),
    ("all-but-one", 4, "a table that had forgotten what lay before a restart explained it as nothing"),
    ("leave", 2, "a lost farewell was not repeated"),
    ("leave", 1038, "who was leaving went on to set places aside"),
    ("leave", 2003, "what was on its way into the store counted as had by whoever had what comes after it"),
    ("storm", 6, "an answer from before a crash slipped in before what was missed"),
    ("everybody", 1060, "a repository heard of a third life before it knew of the first"),
    ("levels", 22, "a subscriber waited for what the repository had told and lost"),
    ("levels", 138, "so did another repository"),
    ("levels", 1000, "and a subscriber passed over some of it and released the rest"),
    ("bounds", 15, "a full table dropped the rows that were needed next"),
    ("bounds", 30, "half a message in the buffer kept the whole from being asked for"),
    ("bounds", 131, "a subscriber without memory did not know what it had acknowledged"),
    ("bounds", 2119, "an assistant's own places kept a repository from serving"),
    ("bounds", 2143, "a life for which there was no room was never told again"),
    ("bounds", 1019, "without room for a place a repository could not learn"),
    ("bounds", 6030, "of two questions the same one was always dropped"),
    ("bounds", 6155, "of two questions about what lies where, too"),
    ("join", 20016, "a repository that had just come counted as having what all the others had"),
    ("disk", 20344, "an answer to a question about a lost era told a subscriber where to begin in the next"),
    ("leave", 20112, "who died on its way out had no places any more for what it missed"),
    ("leave", 20138, "and was taken for the one that had told what would never lie where"),
    ("leave", 120337, "what would never lie at one that leaves counted as passed after it had died and come back"),
    ("leave", 95004, "what it had missed counted as had"),
    ("away", 17, "what a reader had had was told by numbers that nobody could translate after a restart"),
    ("away", 97, "and not told if the repository died soon after"),
    ("levels", 110202, "repositories told each other what somebody had had of messages that were lost"),
    ("leave", 20197, "who was leaving set a place aside for what a later life knew of an earlier one"),
    ("bounds", 79009, "what had no room kept what would have made room from being taken"),
    ("bounds", 35, "a subscriber asked what lies in a place as fast as it was told that nobody knows"),
    ("given-up", 50132, "what was a gap here counted as had where it was stored"),
    ("given-up", 50430, "a message that came late hid those behind it from the repository's look at what is missing"),
    ("given-up", 70231, "a repository told a reader that it had had the gaps which lay below its sync"),
    ("given-up", 70416, "and what was given up above it, where something later of that publisher lay"),
    ("positions", 50046, "what was on its way into the store when a subscription began was wanted after a restart"),
    ("positions", 70062, "of a batch in whose midst a subscription began the first half came at the next repository"),
    ("positions", 70050, "what lay between what was remembered and where a subscription began anew came late"),
    ("retention", 50541, "of what was forgotten only that was told which was asked for"),
    ("retention", 50403, "a driver that had forgotten a step of what had expired waited for its next round"),
    ("retention", 92016, "what came late, after it had been given up, was kept for readers that had had it elsewhere"),
    ("retention", 91037, "a place was given up though a sibling had not said yet that it has the message"),
    ("retention", 72422, "what filled a place late kept what lay behind it, which was judged by its own age"),
    ("retention", 120293, "what a sibling had forgotten, and never came here, counted as forgotten here"),
    ("retention", 170199, "what had been given up, and then expired, was no gap to whoever had not come so far"),
    ("flips", 190159, "what was damaged was asked for every thirty seconds, and the answers were lost"),
    ("mixed", 3117, "one that learnt asked for what it could not take yet, and never for what would have made room"),
    ("mixed", 1311, "who had a place for what was forgotten was not told of that again after a restart"),
    ("mixed", 180067, "what a reader lacked, and had expired, kept everything behind it from expiring"),
    ("levels", 6224, "an acknowledgement of an earlier era was translated by the rows of the next"),
    ("levels", 50011, "who did not hear that nothing lies there any more asked for what was told and lost for ever"),
]


@pytest.mark.parametrize(("failure", "seed", "story"), ONCE_BROKEN)
def test_a_run_that_was_broken_once_is_not_any_more(failure: ReliableClass, seed: int, story: str):
    outcome = run_reliable(seed, failure)
    assert outcome.ok, f"{story}: {outcome.complaint()}"


def test_invariants_hold_at_every_step():
    for failure in RELIABLE_CLASSES:
        outcome = run_reliable(7, failure, check_invariants=True)
        assert outcome.ok, outcome.complaint()


def test_one_seed_gives_one_run():
    first, second = (run_reliable(11, "storm") for _ in range(2))
    assert (first.events, first.messages, first.virtual_s) == (second.events, second.messages, second.virtual_s)
    assert first.judgement == second.judgement
