"""What a node knows of the tree around it."""

from holdfast.model.messages import SessionMessage, Twig, Upward, View
from holdfast.model.terms import Contact
from holdfast.protocols.treeview import TreeView, contacts_in, find_twigs


def twig(name: str, *below: Twig, kind: str = "broker") -> Twig:
    return Twig(name, "client" if kind == "client" else "broker", 1, name, below)


def contact(name: str) -> Contact:
    return Contact(name, 1, name)


def view_of(name: str = "me", hops: int = 2) -> tuple[TreeView, list[tuple[str, SessionMessage]]]:
    said: list[tuple[str, SessionMessage]] = []
    return TreeView(name, 1, name, hops, lambda peer, message: said.append((peer, message))), said


def test_the_dead_are_dead_in_their_epoch():
    view, _ = view_of()
    view.bury("b", 5)
    assert view.is_gone("b", 5)
    assert view.is_gone("b", 4)
    assert not view.is_gone("b", 6)


def test_ancestors_stand_first_in_line_then_the_roots_children_then_whom_the_root_knew():
    upward = Upward((contact("p"), contact("r")), (contact("s"),), (twig("s", twig("u"), twig("c", kind="client")),))
    assert [one.name for one in contacts_in(upward)] == ["p", "r", "s", "u"]


def test_the_next_contact_is_the_first_that_is_alive():
    view, _ = view_of()
    view.learn(Upward((contact("p"), contact("r")), (contact("me"), contact("s")), ()))
    view.bury("p", 1)
    assert view.next_contact() == contact("r")
    view.bury("r", 1)
    assert view.next_contact() == contact("me")


def test_learning_the_same_again_is_no_news():
    view, _ = view_of()
    upward = Upward((contact("p"),), (), ())
    assert view.learn(upward)
    assert not view.learn(upward)


def test_a_new_root_puts_the_old_roots_other_children_before_its_own():
    # Trap 12: otherwise there are two coordinators.
    view, _ = view_of()
    view.learn(Upward((contact("r"),), (contact("me"), contact("s")), ()))
    view.adopt(twig("k"), as_root=False)
    view.bury("r", 1)
    view.become_root()
    assert [one.name for one in view.senior] == ["s", "k"]


def test_those_who_come_with_somebody_above_them_are_neither_children_nor_heirs_of_the_root():
    view, _ = view_of()
    view.adopt(twig("k"), as_root=True)
    view.adopt(twig("p", twig("k")), as_root=True)
    view.come_below({"k"}, as_root=True)
    assert [one.name for one in view.senior] == ["p"]
    assert list(view.children) == ["p"]


def test_a_change_is_known_when_all_neighbours_have_acknowledged_it():
    view, said = view_of()
    known: list[str] = []
    version = view.tell("p", ["p", "k"], 0, lambda: known.append("all"))
    assert [(peer, type(message)) for peer, message in said] == [("k", View), ("p", View)]
    assert not view.acknowledged(version)
    view.on_ack("p", version)
    assert known == []
    view.on_ack("k", version)
    assert known == ["all"]
    assert view.acknowledged(version)


def test_nobody_waits_for_the_acknowledgement_of_the_dead():
    view, _ = view_of()
    version = view.tell("p", ["p"], 0, lambda: None)
    view.give_up_on("p")
    view.settle()
    assert view.acknowledged(version)


def test_the_view_of_the_children_is_only_so_deep():
    view, _ = view_of(hops=2)
    view.adopt(twig("k", twig("l", twig("m"))), as_root=False)
    [child] = view.twig().twigs
    assert find_twigs([child], "k") == (twig("l"),)


def test_clients_are_told_whom_to_turn_to_when_that_changes_and_not_of_each_other():
    view, _ = view_of()
    _, _, first = view.news_below(is_root=True)
    assert first is not None
    assert first.upward is not None
    assert [one.name for one in contacts_in(first.upward)] == ["me"]
    view.adopt(twig("c", kind="client"), as_root=True)
    _, _, news = view.news_below(is_root=True)
    assert news is None
    view.adopt(twig("k", twig("d", kind="client")), as_root=True)
    _, _, news = view.news_below(is_root=True)
    assert news is not None
    assert news.upward is not None
    assert news.upward.siblings == (twig("k"),)


def test_children_are_told_of_the_clients_whose_broker_may_be_lost_with_the_root():
    for hops, needed in ((2, twig("k")), (3, twig("k", twig("d", kind="client")))):
        view, _ = view_of(hops=hops)
        own = twig("c", kind="client")
        view.adopt(own, as_root=True)
        view.adopt(twig("k", twig("d", kind="client")), as_root=True)
        upward, fresh, _ = view.news_below(is_root=True)
        assert fresh
        assert upward is not None
        assert upward.siblings == (own, needed)
        assert not view.news_below(is_root=True)[1]


def test_what_only_one_was_told_when_it_came_is_news_for_all():
    view, _ = view_of()
    view.news_below(is_root=True)
    view.adopt(twig("k"), as_root=True)
    view.upward_for("client", is_root=True)
    view.lose("k", 1)
    _, fresh, news = view.news_below(is_root=True)
    assert fresh
    assert news is not None


def test_a_view_names_the_dead_that_its_receiver_was_not_told_of():
    view, said = view_of()
    view.bury("b", 5)
    view.tell(None, ["k"], 0, lambda: None)
    view.tell(None, ["k"], 0, lambda: None)
    assert [message.dead for _, message in said if isinstance(message, View)] == [(("b", 5),), ()]
