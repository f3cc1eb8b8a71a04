"""The repositories of a cluster file, and what is said about those that cannot be."""

from pathlib import Path

import pytest

from holdfast.cluster.config import Cluster, parse_cluster
from holdfast.cluster.processes import repository_settings
from holdfast.model.errors import ConfigError
from holdfast.model.reliable import Level, Retention

BROKERS = """
tolerance = 1
[brokers.a]
[brokers.b]
parent = "a"
"""
KEPT = (
    BROKERS
    + """
[repositories.r1]
broker = "b"
streams = ["bank/#"]
[repositories.r2]
broker = "a"
streams = ["bank/#", "news"]
store = "segments:two"
level = "written"
[reliable."bank/#"]
owner = "bank"
publishers = ["alice"]
"""
)


def kept() -> Cluster:
    return parse_cluster(KEPT)


def test_a_repository_has_a_health_port_behind_those_of_the_brokers():
    assert [one.health_port for one in kept().repositories] == [7502, 7503]
    assert [one.health_port for one in kept().at_base_port(9000).repositories] == [9102, 9103]


def test_a_repository_goes_to_its_own_broker_first_and_to_the_others_if_that_one_is_lost(tmp_path: Path):
    cluster = kept()
    settings = repository_settings(cluster, cluster.repository("r1"), tmp_path)
    assert settings.addresses == ("holdfast://127.0.0.1:7401", "holdfast://127.0.0.1:7400")
    assert settings.level is Level.FSYNCED


def test_stores_lie_in_the_state_directory_unless_their_path_is_absolute(tmp_path: Path):
    cluster = kept()
    stores = {one.name: repository_settings(cluster, one, tmp_path).store for one in cluster.repositories}
    assert stores == {"r1": f"sqlite:{tmp_path}/stores/r1.db", "r2": f"segments:{tmp_path}/stores/two"}
    elsewhere = parse_cluster(KEPT.replace("segments:two", "segments:/var/lib/two"))
    assert repository_settings(elsewhere, elsewhere.repository("r2"), tmp_path).store == "segments:/var/lib/two"


def test_a_repository_is_told_who_may_publish_on_the_streams_that_it_keeps():
    cluster = kept()
    (said,) = repository_settings(cluster, cluster.repository("r1")).owners
    assert (said.stream, said.owner, said.publishers, said.subscribers) == ("bank/#", "bank", ("alice",), None)


def test_a_repository_keeps_as_long_as_it_is_told_and_else_as_the_topic_is_to_be_kept(tmp_path: Path):
    cluster = parse_cluster(
        BROKERS
        + """
        [repositories.r1]
        broker = "a"
        streams = ["bank/#", "news"]
        keep_bytes = 1000
        [repositories.r2]
        broker = "b"
        streams = ["bank/#", "news"]
        [reliable."bank/#"]
        keep_s = 60
        keep_bytes = 5000
        keep_unread = false
        """
    )
    settings = [repository_settings(cluster, one, tmp_path) for one in cluster.repositories]
    assert settings[0].retention == {"bank/#": Retention(60, 1000, False), "news": Retention(None, 1000)}
    assert settings[1].retention == {"bank/#": Retention(60, 5000, False)}
    assert settings[0].owners == ()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            '[repositories.r]\nbroker = "c"\nstreams = ["t"]',
            "my.toml: repositories.r.broker: there is no broker 'c'; expected a or b.",
        ),
        (
            '[repositories.r]\nbroker = "a"\nstreams = []',
            "my.toml: repositories.r.streams: expected at least one topic or pattern to keep.",
        ),
        (
            '[repositories.r]\nbroker = "a"\nstreams = ["a/#/b"]',
            "my.toml: repositories.r.streams: ",
        ),
        (
            '[repositories.r]\nbroker = "a"\nstreams = ["t"]\nlevel = "soon"',
            "my.toml: repositories.r.level: invalid enum value 'soon'.",
        ),
        (
            '[repositories.b]\nbroker = "a"\nstreams = ["t"]',
            "my.toml: repositories.b: a broker has that name; every node needs its own.",
        ),
        (
            '[repositories.r]\nbroker = "a"\nstreams = ["t"]\nhealth_port = 7500',
            "my.toml: repositories.r.health_port: 127.0.0.1:7500 is taken by brokers.a.health_port; give each its own",
        ),
        (
            '[repositories.r]\nbroker = "a"\nstreams = ["t"]\n[reliable.u]\nowner = "o"',
            "my.toml: reliable.u: no repository keeps it; expected t.",
        ),
        (
            '[repositories.r]\nbroker = "a"\nstreams = ["t"]\n[reliable.t]\npublishers = ["alice"]',
            "my.toml: reliable.t.owner: expected who says who may publish and subscribe.",
        ),
        (
            '[repositories.r]\nbroker = "a"\nstreams = ["t"]\nkeep_s = 0',
            "my.toml: repositories.r.keep_s: ",
        ),
        (
            '[repositories.r]\nbroker = "a"\nstreams = ["t"]\nkeep_for = 3',
            "my.toml: repositories.r.keep_for: unknown key",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_the_key_and_what_was_expected(text: str, sentence: str):
    with pytest.raises(ConfigError) as caught:
        parse_cluster(BROKERS + text, "my.toml")
    assert str(caught.value).startswith(sentence)


def test_asking_for_a_repository_that_is_not_there_names_those_that_are():
    with pytest.raises(ConfigError, match="has no repository 'r3'; it has r1 or r2"):
        kept().repository("r3")
