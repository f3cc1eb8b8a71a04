"""The five scenarios of section 5.2 of the Ginger thesis, on real processes, judged by the checkers.

The tree is that of figure 5.2. What the text says of each scenario is in its docstring; where it contradicts the logs
of the annexes, the logs count (`holdfast.cluster.evaluation`).
"""

from pathlib import Path

import holdfast
from holdfast.cluster.evaluation import default_cluster
from holdfast.cluster.repairs import whole
from tests.integration.faults.support_faults import Stage, play

TREE = {broker.name: broker.parent for broker in default_cluster().brokers}
HOMES = tuple(client.broker for client in default_cluster().clients)


class After:
    """What is left of the tree when it is whole again."""

    def __init__(self) -> None:
        self.parents: dict[str, str | None] = {}
        self.homes: list[str] = []

    @property
    def root(self) -> str:
        [root] = [name for name, parent in self.parents.items() if parent is None]
        return root


def after_the_loss_of(directory: Path, *victims: str, tolerance: int) -> After:
    """All of these are killed at once, under traffic of every guarantee; nobody misses a message."""
    left = After()

    async def story(stage: Stage) -> None:
        for victim in victims:
            stage.processes.crash(victim)
        await stage.flows_again()
        names = [player.client.name for player in stage.players]
        seen = await whole(stage.processes.cluster, victims, names)
        left.parents.update({one.name: one.parent for one in seen.brokers if one.name not in victims})
        left.homes += [player.client.broker for player in stage.players]

    verdict = holdfast.run(play(directory, story, TREE, HOMES, tolerance=tolerance))
    assert verdict.ok, verdict.examples
    return left


def test_broker_1_fails_and_4_and_5_get_a_new_parent_and_what_was_lost(tmp_path: Path):
    """Brokers 4 and 5 must connect to a new parent, and lost messages must be received by both."""
    left = after_the_loss_of(tmp_path, "1", tolerance=1)
    assert (left.parents["4"], left.parents["5"]) == ("0", "0")
    assert left.homes == list(HOMES)


def test_the_root_fails_and_its_children_agree_on_a_new_one(tmp_path: Path):
    """Brokers 1, 2 and 3 must execute the algorithm to determine which of them becomes the new root."""
    left = after_the_loss_of(tmp_path, "0", tolerance=1)
    assert left.root in ("1", "2", "3")
    assert {left.parents[name] for name in {"1", "2", "3"} - {left.root}} == {left.root}


def test_brokers_1_and_4_fail_at_once_and_the_client_of_4_finds_another_broker(tmp_path: Path):
    """The client connected to it must find a new broker to connect it to the middleware."""
    left = after_the_loss_of(tmp_path, "1", "4", tolerance=2)
    assert left.parents["5"] == "0"
    moved, *others = left.homes
    assert moved not in ("1", "4")
    assert others == list(HOMES[1:])


def test_brokers_0_and_1_fail_at_once_and_those_who_know_of_one_only_find_a_root(tmp_path: Path):
    """Brokers 2 and 3 must determine the new root; however, they are not aware of broker 1's failure."""
    left = after_the_loss_of(tmp_path, "0", "1", tolerance=2)
    assert left.root in ("2", "3")


def test_all_children_of_the_root_fail_and_theirs_find_a_new_parent(tmp_path: Path):
    """Brokers 4, 5, 6 and 7 must find a new parent."""
    left = after_the_loss_of(tmp_path, "1", "2", "3", tolerance=1)
    assert left.parents == {"0": None, "4": "0", "5": "0", "6": "0", "7": "0"}
