"""A cluster file: what it means, and what is said about one that cannot be."""

from pathlib import Path

import pytest

from holdfast.cluster.config import BROKERS_MAX, Cluster, load_cluster, parse_cluster
from holdfast.cluster.evaluation import default_cluster
from holdfast.model.errors import ConfigError

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "clusters"

CHAIN = """
name = "chain"
[brokers.a]
[brokers.b]
parent = "a"
[brokers.c]
parent = "b"
port = 9000
[clients.alice]
broker = "c"
topics = ["bank/+"]
"""


def refusal(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_cluster(text, "my.toml")
    return str(caught.value)


def test_ports_count_up_from_the_base_port_where_none_is_given():
    cluster = parse_cluster(CHAIN)
    assert [(broker.port, broker.health_port) for broker in cluster.brokers] == [
        (7400, 7500),
        (7401, 7501),
        (9000, 9100),
    ]
    assert cluster.broker("b").address == "holdfast://127.0.0.1:7401"


def test_the_tree_is_read_from_the_parents():
    cluster = parse_cluster(CHAIN)
    assert cluster.root.name == "a"
    assert [child.name for child in cluster.children("a")] == ["b"]
    assert cluster.clients[0].topics == ("bank/+",)


def test_parents_come_first_whatever_the_order_of_the_file():
    cluster = parse_cluster('[brokers.z]\nparent="m"\n[brokers.m]\nparent="a"\n[brokers.a]\n')
    assert [broker.name for broker in cluster.parents_first()] == ["a", "m", "z"]


def test_a_cluster_can_be_moved_to_another_base_port():
    moved = parse_cluster(CHAIN).at_base_port(8000)
    assert [(broker.port, broker.health_port) for broker in moved.brokers] == [(8000, 8100), (8001, 8101), (8002, 8102)]


def test_a_base_port_that_runs_out_of_ports_is_refused():
    with pytest.raises(ConfigError, match="65536 is no port; expected 1 to 65535"):
        parse_cluster(CHAIN).at_base_port(65435)


def test_the_default_cluster_is_the_one_in_the_examples():
    assert load_cluster(EXAMPLES / "ginger-evaluation.toml") == default_cluster()


def test_the_default_cluster_is_the_tree_of_the_evaluation():
    cluster = default_cluster()
    assert {broker.name: broker.parent for broker in cluster.brokers} == {
        "0": None, "1": "0", "2": "0", "3": "0", "4": "1", "5": "1", "6": "2", "7": "3",
    }  # fmt: skip
    assert {client.name: (client.broker, *client.topics) for client in cluster.clients} == {
        "c0": ("4", "bank/topic1"),
        "c1": ("5", "bank/topic2"),
        "c2": ("6", "bank/topic2"),
        "c3": ("6", "bank/topic1"),
        "c4": ("7", "bank/topic1"),
    }
    # No broker of the evaluation has more than three neighbours, clients included (listing 5.1, annexes IV and VI).
    for broker in cluster.brokers:
        attached = [client for client in cluster.clients if client.broker == broker.name]
        assert len(cluster.children(broker.name)) + len(attached) + (broker.parent is not None) <= 3


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.toml")), ids=lambda path: path.stem)
def test_every_example_is_a_cluster(path: Path):
    assert isinstance(load_cluster(path), Cluster)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[brokers.a\n", "my.toml is not TOML: Expected ']' at the end of a table declaration (at line 1, column 11)."),
        ("", "my.toml: brokers: expected at least one, such as [brokers.0]."),
        ("[brokers]\n", "my.toml: brokers: expected at least one, such as [brokers.0]."),
        (
            "broker = 1\n[brokers.a]\n",
            "my.toml: broker: unknown key (did you mean 'brokers'?); expected brokers, name,",
        ),
        ("[brokers.a]\nprot = 1\n", "my.toml: brokers.a.prot: unknown key (did you mean 'port'?); expected parent,"),
        ("[brokers.a]\nport = 'x'\n", "my.toml: brokers.a.port: expected `int | null`, got `str`."),
        ("[brokers.a]\nport = 70000\n", "my.toml: brokers.a.port: expected `int` <= 65535."),
        ("[brokers.a]\nlatency_ms = -1\n", "my.toml: brokers.a.latency_ms: expected `float` >= 0.0."),
        ("brokers = 3\n", "my.toml: brokers: expected `object`, got `int`."),
        ("[brokers]\na = 3\n", "my.toml: brokers: expected `object`, got `int`."),
        ("[brokers.a]\nparent = 'a'\n", "my.toml: brokers.a.parent: a -> a is a cycle of parents;"),
        (
            "[brokers.r]\n[brokers.a]\nparent='c'\n[brokers.b]\nparent='a'\n[brokers.c]\nparent='b'\n",
            "my.toml: brokers.a.parent: a -> c -> b -> a is a cycle of parents; brokers form a tree,",
        ),
        ("[brokers.a]\n[brokers.b]\n", "my.toml: brokers: a and b have no parent; exactly one broker is the root,"),
        (
            "[brokers.left]\n[brokers.b]\nparent='lef'\n",
            "my.toml: brokers.b.parent: there is no broker 'lef' (did you mean 'left'?); expected left or b.",
        ),
        (
            "[brokers.a]\nport=80\n[brokers.b]\nparent='a'\nhealth_port=80\n",
            "my.toml: brokers.b.health_port: 127.0.0.1:80 is taken by brokers.a.port; give each its own port.",
        ),
        ("protocol='gingr'\n[brokers.a]\n", "my.toml: protocol: unknown protocol 'gingr' (did you mean 'ginger'?);"),
        (
            "protocol='locamu'\ntolerance=1\ndegree_max=3\n[brokers.a]\n",
            "my.toml: degree_max: brokers of protocol locamu keep their places in the tree, so nobody is moved",
        ),
        ("name='a b'\n[brokers.a]\n", "my.toml: name: 'a b' is no name; expected up to 64 letters, digits,"),
        ("[brokers.'../x']\n", "my.toml: brokers.../x: '../x' is no name;"),
        ("[brokers.a]\n[clients.a]\nbroker='a'\n", "my.toml: clients.a: a broker has that name; every node needs"),
        ("[brokers.a]\n[clients.x]\n", "my.toml: clients.x: object missing required field `broker`."),
        ("[brokers.a]\n[clients.x]\nbroker='b'\n", "my.toml: clients.x.broker: there is no broker 'b'; expected a."),
        (
            "[brokers.a]\n[clients.x]\nbroker='a'\ntopics=['a//b']\n",
            "my.toml: clients.x.topics: Topic pattern 'a//b' has an empty level (level 2); write 'a/b'.",
        ),
        ("base_port = 65500\n[brokers.a]\n", "my.toml: base_port: 65500 leaves no room for the brokers below port"),
    ],
)
def test_what_cannot_be_is_refused_with_the_key_and_what_was_expected(text: str, sentence: str):
    assert refusal(text).startswith(sentence)


def test_more_brokers_than_a_file_may_have_are_refused():
    text = "".join(f"[brokers.b{index}]\n" for index in range(BROKERS_MAX + 1))
    assert refusal(text) == f"my.toml: brokers: {BROKERS_MAX + 1} are too many; at most {BROKERS_MAX} are allowed."


def test_a_file_that_is_not_there_is_said_to_be_so(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"There is no cluster file .*absent.toml"):
        load_cluster(tmp_path / "absent.toml")


def test_a_file_that_is_no_text_is_said_to_be_so(tmp_path: Path):
    (tmp_path / "photo.toml").write_bytes(b"\xff\xd8")
    with pytest.raises(ConfigError, match=r"photo.toml is not UTF-8 text \(byte 0\)"):
        load_cluster(tmp_path / "photo.toml")


def test_a_directory_is_no_cluster_file(tmp_path: Path):
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load_cluster(tmp_path)


def test_asking_for_a_broker_that_is_not_there_names_those_that_are():
    with pytest.raises(ConfigError, match="cluster chain has no broker 'd'; it has a, b or c"):
        parse_cluster(CHAIN).broker("d")


@pytest.mark.parametrize("tolerance", ["-1", "3"])
def test_a_tolerance_that_cannot_be_is_explained(tolerance: str):
    with pytest.raises(
        ConfigError, match=r"tolerance: -?\d cannot be; expected 0 \(nothing is repaired\), 1 \(one broker"
    ):
        parse_cluster(f"tolerance = {tolerance}\n{CHAIN}")


def test_a_cluster_repairs_nothing_unless_it_says_so():
    assert (parse_cluster(CHAIN).tolerance, parse_cluster(f"tolerance = 2\n{CHAIN}").tolerance) == (0, 2)


@pytest.mark.parametrize("degree_max", ["-1", "1", "2"])
def test_a_number_of_neighbours_that_makes_no_tree_is_explained(degree_max: str):
    with pytest.raises(ConfigError, match=r"degree_max: -?\d cannot be: expected 0 \(any number of neighbours\), or 3"):
        parse_cluster(f"tolerance = 1\ndegree_max = {degree_max}\n{CHAIN}")


def test_a_number_of_neighbours_needs_brokers_that_repair_the_tree():
    with pytest.raises(ConfigError, match="degree_max: 4 takes a tolerance of 1 or more"):
        parse_cluster(f"degree_max = 4\n{CHAIN}")
    assert parse_cluster(f"tolerance = 1\ndegree_max = 4\n{CHAIN}").degree_max == 4
    assert parse_cluster(CHAIN).degree_max == 0


# --------------------------------------------------------------------------------------------------------------- sites

SITES = """
protocol = "sesdad"
base_port = 8000
[sites.porto]
[sites.lisbon]
parent = "porto"
replicas = 1
ports = [9000]
"""


def test_a_site_is_several_brokers_named_after_it():
    cluster = parse_cluster(SITES)
    assert [(broker.name, broker.parent, broker.port) for broker in cluster.brokers] == [
        ("porto.1", None, 8000),
        ("porto.2", "porto.1", 8001),
        ("porto.3", "porto.1", 8002),
        ("lisbon.1", "porto.1", 9000),
    ]
    assert cluster.routing == "filtering"
    assert cluster.addresses_of("lisbon.1") == ("holdfast://127.0.0.1:9000",)
    assert len(cluster.addresses_of("porto")) == 3


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (SITES + "[sites.faro]\nparent = 'portu'\n", "sites.faro.parent: there is no site 'portu'"),
        (
            SITES + "[sites.faro]\nparent = 'porto'\nreplicas = 2\n",
            "sites.faro.replicas: 2 cannot be; expected 1, 3 or 5",
        ),
        (
            SITES + "[sites.faro]\nparent = 'porto'\nports = [1]\n",
            "sites.faro.ports: expected one for each of 3 brokers",
        ),
        (
            SITES + "[sites.faro]\nparent = 'porto'\nmachine = 'm1'\nmachines = ['m2']\n",
            "sites.faro.machines: machine is there as well",
        ),
        (
            SITES + "[sites.faro]\nparent = 'porto'\nmachines = ['m1', 'm2']\n",
            "there is no machine 'm1'",
        ),
        (SITES + "[sites.faro]\n", "exactly one site is the root"),
        ("routing = 'fluding'\n" + SITES, "routing"),
        ("tolerance = 1\n" + SITES, "tolerance: of the 2f+1 brokers of a site f may be lost"),
        (SITES + "[brokers.a]\n", "brokers: protocol sesdad has sites; expected [sites.NAME] alone"),
        ("[sites.a]\n", "sites: protocol ginger has no sites; expected [brokers.NAME], or the protocol sesdad"),
        ("protocol = 'sesdad'\n", "sites: expected at least one, such as [sites.lisbon]"),
        (SITES + "[clients.bob]\nbroker = 'braga'\n", "there is no broker 'braga'"),
    ],
)
def test_sites_that_cannot_be_are_refused_with_their_key_and_what_was_expected(text: str, said: str):
    assert said in refusal(text)
