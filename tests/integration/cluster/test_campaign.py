"""A campaign over several processes: the same verdicts as in one, and a clean end when it is interrupted."""

import json

from tests.integration.cluster.terminal import INTERRUPTED, Terminal, children, eventually, press_ctrl_c


def test_several_processes_find_what_one_finds(terminal: Terminal):
    found = []
    for workers in (1, 2):
        options = ["--protocol", "ginger-locks", "--seeds", "1..20", "--workers", workers, "--json"]
        ran = terminal.run("campaign", *options)
        result = json.loads(ran.stdout)
        assert (ran.returncode, result["runs"]) == (1, 20)
        found.append((result["deliveries"], [one["seed"] for one in result["violations"]]))
    assert found[0] == found[1]


def test_ctrl_c_ends_a_campaign_and_its_processes(terminal: Terminal):
    campaign = terminal.start("campaign", "--seeds", "1..1000000", "--workers", 2)
    assert eventually(lambda: len(children(campaign.pid)) == 2)
    started = children(campaign.pid)
    code, out, err = press_ctrl_c(campaign)
    assert (code, out, err) == (130, "", INTERRUPTED)
    assert not any(one.is_alive() for one in started)
    assert list(terminal.directory.iterdir()) == []
