"""kill -9 in the middle of a stream: after a restart every message is there once, in the archive and at the brokers."""

from pathlib import Path

from tests.integration.pipeline.killing import Count, kill_and_restart


def test_killed_at_random_the_archive_and_the_brokers_have_every_message_once(tmp_path: Path):
    said: list[str] = []
    outcome = kill_and_restart(tmp_path, kills=4, seed=7, say=said.append)
    assert outcome.kills == {"workers": 2, "driver": 1, "everything": 1}
    exact = Count(outcome.archived.messages, duplicates=0, losses=0)
    assert (outcome.archived, outcome.published) == (exact, exact), said
