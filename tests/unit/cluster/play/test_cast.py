"""Who takes part: every line is judged by what stands before it."""

import pytest

from holdfast.cluster.play.cast import check_script
from holdfast.cluster.play.grammar import parse_script
from holdfast.cluster.play.words import ScriptError

TREE = "Broker a\nBroker b Parent a\nPublisher p At a\nSubscriber s At b\n"


def refused(text: str) -> str:
    with pytest.raises(ScriptError) as raised:
        check_script(parse_script(text, "x.play"), "x.play")
    return str(raised.value)


def test_a_whole_cast_becomes_a_cluster():
    cast = check_script(parse_script("Protocol locamu\nTolerance 1\n" + TREE + "Crash b\nRestart b\n"))
    cluster = cast.cluster()
    assert [(one.name, one.parent) for one in cluster.brokers] == [("a", None), ("b", "a")]
    assert (cluster.protocol, cluster.tolerance) == ("locamu", 1)
    assert [(one.name, one.broker) for one in cluster.clients] == [("p", "a"), ("s", "b")]


def test_a_broker_that_was_started_again_may_crash_again():
    cast = check_script(parse_script(TREE + "Crash b\nRestart b\nFreeze b\nUnfreeze b\nCrash b\n"))
    assert cast.crashed == {"b"}


def test_a_client_may_be_said_to_be_a_publisher_and_a_subscriber_in_two_lines():
    cast = check_script(parse_script("Broker a\nPublisher x At a\nSubscriber x At a\n"))
    assert (cast.clients["x"].publishes, cast.clients["x"].subscribes) == (True, True)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("Broker a\nBroker b\n", "x.play:2: a is the root already, and a tree has one: give b a Parent."),
        ("Broker b Parent a\nBroker a\n", "x.play:1: there is no broker 'a' above line 1 to be the parent of b"),
        ("Broker a\nBroker a Parent a\n", "x.play:2: there is a broker a already"),
        ("Broker a\nPublisher a At a\n", "x.play:2: there is a broker a already"),
        ("Broker a On m1\n", "x.play:1: there is no machine 'm1'; expected none. Say first where it is: Machine m1"),
        ("Machine m1 h:1\nBroker a\nHeal\n", "x.play:2: a is on no machine"),
        ("Protocol gingr\n", "x.play:1: there is no protocol 'gingr' (did you mean 'ginger'?)"),
        ("Publisher p At a\n", "x.play:1: there is no broker or site 'a'; expected none."),
        ("Wait 5\n", "x.play:1: there is no broker yet: say first Broker NAME."),
        (
            TREE + "Heal\nBroker c Parent a\n",
            "x.play:6: the cluster runs since line 5 (Heal): say this before that line.",
        ),
        (
            TREE + "Publisher q Publish 1 OnTopic t\n",
            "x.play:5: there is no client 'q'; say first Publisher q At BROKER",
        ),
        (TREE + "Publisher s Publish 1 OnTopic t\n", "x.play:5: s is no publisher; say first Publisher s At b."),
        (TREE + "Crash c\n", "x.play:5: there is no broker or client 'c'; expected a, b, p or s."),
        (TREE + "Crash b\nCrash b\n", "x.play:6: b has crashed already."),
        (TREE + "Crash b\nFreeze b\n", "x.play:6: b has crashed: Restart b first."),
        (
            TREE + "Crash s\nSubscriber s Subscribe t\n",
            "x.play:6: s has crashed: a client that crashed does not come back",
        ),
        (TREE + "Crash s\nRestart s\n", "x.play:6: s is a client, and a client that crashed does not come back"),
        (TREE + "Restart b\n", "x.play:5: b runs; say Crash b first, or Unfreeze b if it is frozen."),
        (TREE + "Cut a s\n", "x.play:5: there is no broker 's'; expected a or b."),
        (TREE + "Cut a a\n", "x.play:5: a is named twice; name different brokers."),
        (TREE + "Part a b\n", "x.play:5: these are all brokers there are"),
        (TREE + "Expect bob Delivered 1\n", "x.play:5: there is no client 'bob'; expected p or s."),
        (TREE + "Expect c Ready\n", "x.play:5: there is no broker 'c'; expected a or b."),
        (
            "Protocol locamu\n" + TREE + "Publisher p Publish 1 OnTopic t Guarantee total\n",
            "x.play:6: protocol locamu does not give 'total'",
        ),
        (
            "Site a\nWait 1\n",
            "x.play:1: protocol ginger knows no sites, it has a tree of single brokers: write Broker a",
        ),
        (
            "RoutingPolicy flooding\n" + TREE + "Wait 1\n",
            "x.play:1: RoutingPolicy flooding is for protocols with sites",
        ),
    ],
)
def test_a_line_that_cannot_be_there_is_refused_with_its_number(text: str, sentence: str):
    assert refused(text).startswith(sentence)


SITES = "Protocol sesdad\nSite a\nSite b Parent a\nPublisher p At a\n"


def test_sites_become_the_sites_of_a_cluster():
    cast = check_script(
        parse_script(
            "RoutingPolicy flooding\nMachine m1 h:1\n"
            + SITES.replace("\nPub", " On m1\nPub").replace("Site a", "Site a On m1")
            + "Crash b.2\n"
        )
    )
    cluster = cast.cluster()
    assert [(site.name, site.parent, len(site.members)) for site in cluster.sites] == [("a", None, 3), ("b", "a", 3)]
    assert (cluster.routing, {one.machine for one in cluster.brokers}, cluster.brokers[0].host) == (
        "flooding",
        {"m1"},
        "h",
    )
    assert list(cast.nodes) == ["a.1", "a.2", "a.3", "b.1", "b.2", "b.3"]
    assert [(one.name, one.broker) for one in cluster.clients] == [("p", "a")]


def test_a_site_has_a_broker_on_each_of_its_machines_in_turn():
    machines = "Machine m1 10.0.0.1:7300\nMachine m2 10.0.0.2:7300\n"
    text = "Protocol sesdad\n" + machines + "Site a On m1,m2\nSite b Parent a On m2\nWait 1\n"
    cluster = check_script(parse_script(text)).cluster()
    assert [(one.name, one.machine, one.host) for one in cluster.brokers[:4]] == [
        ("a.1", "m1", "10.0.0.1"),
        ("a.2", "m2", "10.0.0.2"),
        ("a.3", "m1", "10.0.0.1"),
        ("b.1", "m2", "10.0.0.2"),
    ]
    assert "x.play:4: there is no machine 'm3'" in refused("Protocol sesdad\n" + machines + "Site a On m1,m3\nWait 1\n")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "Protocol sesdad\nBroker a\nWait 1\n",
            "x.play:2: brokers of protocol sesdad are those of sites: write Site a",
        ),
        (
            "Protocol sesdad\nSite a Replicas 2\nWait 1\n",
            "x.play:2: a site of 2 brokers cannot be; expected 1, 3 or 5.",
        ),
        (
            "Protocol sesdad\nSite a\nSite b Parent a Replicas 5\nWait 1\n",
            "x.play:3: all sites of a script have as many",
        ),
        ("Tolerance 1\n" + SITES + "Wait 1\n", "x.play:1: Tolerance 1 is for trees of single brokers"),
        (SITES + "Crash a\n", "x.play:5: a is a site; name one of its brokers: a.1, a.2 or a.3."),
        (SITES + "Part a b\n", "x.play:5: these are all brokers there are"),
        (
            SITES + "Publisher p Publish 1 OnTopic t Guarantee total\n",
            "x.play:5: protocol sesdad does not give 'total'",
        ),
        ("Protocol sesdad\nOrdering causal\nSite a\nWait 1\n", "x.play:2: protocol sesdad does not give 'causal'"),
        ("Site a\n", "x.play:1: protocol ginger knows no sites"),
    ],
)
def test_sites_that_cannot_be_are_refused_with_their_line(text: str, sentence: str):
    assert refused(text).startswith(sentence)


def test_publications_that_name_no_guarantee_have_the_strongest_up_to_causal_that_the_protocol_gives():
    def guarantee(head: str) -> str:
        script = parse_script(head + TREE + "Publisher p Publish 1 OnTopic t\n")
        return check_script(script).guarantee_of(script[-1])  # type: ignore[arg-type]

    assert guarantee("") == "causal"
    assert guarantee("Protocol delta-neighbourhood\n") == "fifo"
    assert guarantee("Ordering total\n") == "total"
