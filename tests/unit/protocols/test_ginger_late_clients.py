"""What is kept for clients that were busy while their broker died."""

from holdfast.model.batches import Batch, make_batch
from holdfast.model.guarantees import CAUSAL, FIFO, TOTAL
from holdfast.model.messages import Twig, Unstable
from holdfast.protocols.ginger.absences import NOTHING
from holdfast.protocols.ginger.late_clients import CASES_MAX, Account, LateCase, LateClients

KEEP_S = 30.0


def batch(publisher: str, seq: int, guarantee: int = CAUSAL, key: str = "") -> Batch:
    return make_batch(publisher, seq, "t", guarantee, [b"x"], [(key,)] if key else [])


def client(name: str, epoch: int = 1) -> Twig:
    return Twig(name, "client", epoch, "")


def began(late: LateClients, lost: str = "b", now: float = 0.0) -> LateCase:
    case = late.begin(lost, {"c": client("c")}, [("t", "")], now)
    case.keep(NOTHING, {}, {}, {})
    return case


def received(one: Batch) -> Unstable:
    return Unstable("r", one, 0, 0)


def anybody(_: Batch) -> bool:
    return True


def account(*records: Unstable, **processed: int) -> Account:
    return Account(list(records), processed, anybody)


def test_a_client_is_waited_for_in_its_epoch():
    late = LateClients(1000, KEEP_S)
    case = began(late)
    assert late.of("c", 1) is case
    assert late.of("c", 2) is None
    assert late.of("d", 1) is None
    assert late.before("c", 2) is case
    assert late.before("c", 1) is None


def test_what_was_processed_since_is_kept_if_the_stand_in_wants_it():
    late = LateClients(1000, KEEP_S)
    case = began(late)
    late.note(batch("p", 1), 5, {case.stand_in: True})
    late.note(batch("p", 2), 6, {"somebody": True})
    assert list(case.since) == [(batch("p", 1), 5)]
    assert late.status() == {"c": {"lost": "b", "bytes": batch("p", 1).cost_bytes}}


def test_nothing_is_noted_before_the_repair_has_ended():
    late = LateClients(1000, KEEP_S)
    case = late.begin("b", {"c": client("c")}, [("t", "")], 0.0)
    late.note(batch("p", 1), 5, {case.stand_in: True})
    assert not case.since


def test_a_case_is_over_when_the_time_of_a_session_is():
    late = LateClients(1000, KEEP_S)
    case = began(late, now=1.0)
    assert late.over(30.9) == []
    assert late.over(31.0) == [case]
    late.end(case)
    assert len(late) == 0


def test_a_case_is_over_when_it_costs_too_much():
    one = batch("p", 1)
    late = LateClients(one.cost_bytes, KEEP_S)
    case = began(late)
    late.note(one, 5, {case.stand_in: True})
    assert late.over(1.0) == []
    late.note(batch("p", 2), 6, {case.stand_in: True})
    assert late.over(1.0) == [case]


def test_of_too_many_cases_the_first_is_over():
    late = LateClients(1000, KEEP_S)
    cases = [began(late, f"b{number}") for number in range(CASES_MAX + 1)]
    assert late.over(1.0) == cases[:1]


def test_a_total_batch_that_others_got_behind_another_one_on_its_key_contradicts():
    case, total = began(LateClients(10_000, KEEP_S)), batch("p", 1, TOTAL, "k")
    case.note(batch("q", 1, TOTAL, "else"), 4)
    case.note(batch("q", 2, TOTAL, "k"), 5)
    case.note(total, 6)
    assert case.contradicts(account(received(total)), {"p": 1}, anybody)


def test_one_that_others_got_behind_weaker_messages_on_its_key_makes_those_cross():
    case, total, weaker = began(LateClients(10_000, KEEP_S)), batch("p", 1, TOTAL, "k"), batch("q", 2, FIFO, "k")
    case.note(batch("q", 1, TOTAL, "else"), 4)
    case.note(weaker, 5)
    case.note(total, 6)
    assert not case.contradicts(account(received(total)), {"p": 1}, anybody)
    assert case.crossed(account(received(total)), {"p": 1}) == [weaker]


def test_one_that_others_got_before_any_other_on_its_key_does_not():
    case, total = began(LateClients(10_000, KEEP_S)), batch("p", 1, TOTAL, "k")
    case.note(total, 4)
    case.note(batch("q", 2, TOTAL, "k"), 5)
    assert not case.contradicts(account(received(total)), {"p": 1}, anybody)


def test_one_that_nobody_else_knows_contradicts_if_others_would_get_it_behind_another_one_on_its_key():
    case, total = began(LateClients(10_000, KEEP_S)), batch("p", 1, TOTAL, "k")
    assert not case.contradicts(account(received(total)), {}, anybody)
    case.note(batch("q", 2, TOTAL, "k"), 5)
    assert case.contradicts(account(received(total)), {}, anybody)
    assert not case.contradicts(account(received(total)), {}, lambda _: False)
    assert not case.contradicts(account(received(total)), {"p": 1}, anybody)


def test_a_total_batch_that_the_repair_was_about_does_not_contradict():
    case, total = LateClients(10_000, KEEP_S).begin("b", {}, [], 0.0), batch("p", 1, TOTAL, "k")
    case.keep(NOTHING, {}, {("p", 1): total}, {})
    case.note(batch("q", 2, TOTAL, "k"), 5)
    assert not case.contradicts(account(received(total), Unstable("t", batch("c", 7, TOTAL, "k"), 0, 0)), {}, anybody)


def test_a_weaker_message_that_reached_the_client_alone_has_crossed_a_total_one_on_its_key():
    case = began(LateClients(10_000, KEEP_S))
    case.note(batch("p", 1, TOTAL, "k"), 5)
    weaker, other = batch("c", 1, FIFO, "k"), batch("c", 2, FIFO, "else")
    assert case.crossed(account(received(weaker), received(other), received(batch("c", 3))), {}) == [weaker]
    assert case.crossed(account(received(weaker)), {"c": 3}) == []


def test_one_that_others_have_before_the_total_one_as_well_has_not():
    case, weaker = began(LateClients(10_000, KEEP_S)), batch("c", 1, FIFO, "k")
    case.note(weaker, 5)
    case.note(batch("p", 1, TOTAL, "k"), 6)
    assert case.crossed(account(received(weaker)), {"c": 1}) == []


def test_what_the_repair_has_handed_to_others_and_the_client_lacks_counts_as_well():
    case, total = LateClients(10_000, KEEP_S).begin("b", {}, [], 0.0), batch("p", 1, TOTAL, "k")
    weaker = batch("q", 1, FIFO, "k")
    case.keep(NOTHING, {}, {("q", 1): weaker}, {})
    case.note(total, 5)
    assert case.crossed(account(received(total)), {"p": 1}) == []
    case.orders = [[("q", 1)], [("r", 1)]]
    assert case.crossed(account(received(total)), {"p": 1}) == [weaker]
    assert case.crossed(account(received(total), q=1), {"p": 1}) == []
    case.keep(NOTHING, {}, {("r", 1): batch("r", 1, TOTAL, "k")}, {})
    assert case.contradicts(account(received(total)), {"p": 1}, anybody)
    assert not case.contradicts(account(received(total), r=1), {"p": 1}, anybody)


def test_total_batches_that_climbed_again_contradict_nobody_who_got_them_in_the_same_order():
    case, first, second = began(LateClients(10_000, KEEP_S)), batch("p", 1, TOTAL, "k"), batch("q", 1, TOTAL, "k")
    case.note(first, 4)
    case.note(second, 5)
    assert not case.contradicts(account(received(first), received(second), p=1, q=1), {"p": 1, "q": 1}, anybody)
    assert not case.contradicts(account(received(second), p=1, q=1), {"p": 1, "q": 1}, anybody)
    assert case.contradicts(account(received(second), received(first), p=1, q=1), {"p": 1, "q": 1}, anybody)


def handed(first: Batch, second: Batch) -> LateCase:
    """Somebody who came to the repair was handed the first before the second."""
    case = began(LateClients(1000, KEEP_S))
    known = {(one.publisher, one.first): one for one in (first, second)}
    case.keep(NOTHING, {}, known, {})
    case.orders.append([*known])
    return case


def test_a_weaker_message_that_a_late_client_has_on_another_side_of_a_total_one_is_out_of_order():
    total, weaker = batch("m", 1, TOTAL, "k"), batch("w", 1, CAUSAL, "k")
    known = account(received(weaker), received(total), m=1, w=1)
    case = handed(total, weaker)
    assert [*case.out_of_order(known)] == [("w", 1)]
    assert (case.crossed(known, {}), case.contradicts(known, {}, anybody)) == ([weaker], False)
    assert handed(weaker, total).out_of_order(known) == {}


def test_two_total_messages_that_a_late_client_has_the_other_way_round_end_its_session():
    one, other = batch("m", 1, TOTAL, "k"), batch("n", 1, TOTAL, "k")
    assert handed(one, other).contradicts(account(received(other), received(one), m=1, n=1), {}, anybody)
    assert not handed(other, one).contradicts(account(received(other), received(one), m=1, n=1), {}, anybody)


def test_what_a_late_client_lacks_contradicts_what_it_has_only_if_it_wants_it():
    one, other = batch("m", 1, TOTAL, "k"), batch("n", 1, TOTAL, "k")
    case = handed(one, other)
    assert case.contradicts(Account([received(other)], {"n": 1}, anybody), {}, anybody)
    assert not case.contradicts(Account([received(other)], {"n": 1}, lambda _: False), {}, anybody)


def test_two_total_messages_of_which_late_clients_alone_have_one_contradict_nobody():
    case = began(LateClients(1000, KEEP_S))
    one, other = batch("m", 1, TOTAL, "k"), batch("n", 1, TOTAL, "k")
    case.note(one, 5)
    case.note(other, 6, shared=False)
    assert not case.contradicts(account(received(other), n=1), {"m": 1, "n": 1}, lambda _: False)
    case.note(other, 6)
    assert case.contradicts(account(received(other), n=1), {"m": 1, "n": 1}, lambda _: False)
