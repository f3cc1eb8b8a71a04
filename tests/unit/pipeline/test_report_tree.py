"""The tree as a drawing: where brokers stand, who was killed, what moved."""

from xml.etree import ElementTree as ET

from holdfast.cluster.demo import Tree
from holdfast.pipeline.report_tree import Layout, tree_drawing
from tests.unit.pipeline.ran import AFTER, BEFORE


def marked(drawing: str, kind: str) -> int:
    return sum(one.attrib.get("class") == kind for one in ET.fromstring(drawing).iter())


def words(drawing: str) -> list[str]:
    return [one.text or "" for one in ET.fromstring(drawing).iter("text")]


def test_a_parent_stands_above_the_middle_of_its_children():
    layout = Layout(BEFORE)
    (top, _), (left, below), (right, same) = (layout.point(broker) for broker in "012")
    assert left < right
    assert top == (left + right) / 2
    assert below == same > layout.point("0")[1]


def test_brokers_with_several_clients_keep_a_distance():
    layout = Layout(Tree({"0": None, "1": "0", "2": "0"}, {"a": "1", "b": "1", "c": "1", "d": "2"}))
    near = Layout(BEFORE)
    assert layout.point("2")[0] - layout.point("1")[0] > near.point("2")[0] - near.point("1")[0]


def test_the_killed_are_marked_with_their_turn():
    drawing = tree_drawing(BEFORE, ["2", "0"])
    assert marked(drawing, "broker dead") == 2
    assert [one for one in words(drawing) if "✕" in one] == ["✕ 2nd", "✕ 1st"]


def test_links_and_a_root_that_were_not_before_are_marked():
    drawing = tree_drawing(AFTER, before=BEFORE)
    assert (marked(drawing, "link moved"), marked(drawing, "link"), marked(drawing, "broker new")) == (1, 0, 1)
    assert "new root" in words(drawing)
    assert (marked(tree_drawing(BEFORE, before=BEFORE), "link moved"), marked(tree_drawing(BEFORE), "link")) == (0, 2)


def test_brokers_whose_parent_is_gone_stand_beside_each_other():
    layout = Layout(Tree({"1": "0", "2": "0"}, {}))
    assert layout.point("1")[1] == layout.point("2")[1]
    assert layout.point("1")[0] < layout.point("2")[0]
