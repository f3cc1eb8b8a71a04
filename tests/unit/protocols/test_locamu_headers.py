"""Headers of LoCaMu: what one end encodes the other decodes, and each byte is there for a reason."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.protocols.locamu.copies import Copy, Numbers, reaches
from holdfast.protocols.locamu.headers import Decoder, Encoder, HeaderError, LinkTerms
from holdfast.protocols.neighbourhoods import Neighbourhood

EDGES = [("a", "b"), ("b", "c"), ("c", "d"), ("b", "e"), ("c", "f"), ("d", "g")]
REACH = reaches(1)


def terms(own: str) -> LinkTerms:
    return LinkTerms(Neighbourhood(own, EDGES), "c", "d", REACH)


def ends() -> tuple[Encoder, Decoder]:
    return Encoder(terms("c"), "c"), Decoder(terms("d"), "c", "d")


def through(encoder: Encoder, decoder: Decoder, copy: Copy) -> tuple[Copy, int]:
    header, size = encoder.encode(copy)
    assert size.wire_bytes == len(header)
    return decoder.decode(header), len(header)


COPY = Copy(("a", "b", "c"), {"a": {"b": 1, "c": 1}, "b": {"c": 1, "d": 1}, "c": {"d": 1, "g": 1}}, {})


def test_both_ends_agree_on_what_matters_without_saying_it():
    assert terms("c").nodes == terms("d").nodes
    assert terms("c").pairs == terms("d").pairs


def test_a_copy_comes_out_as_it_went_in():
    encoder, decoder = ends()
    assert through(encoder, decoder, COPY)[0] == COPY


def test_in_a_steady_stream_the_past_costs_one_byte():
    encoder, decoder = ends()
    past: Numbers = {}
    for number in range(1, 500):
        marks = {node: dict.fromkeys(numbers, number) for node, numbers in COPY.marks.items()}
        copy = Copy(COPY.path, marks, dict(past))
        found, size = through(encoder, decoder, copy)
        assert found == copy
        # Flags, the first of the path, who marked it, targets of each, and that nothing else has changed.
        assert size == 1 + 1 + 1 + 3 + 1
        past = {(node, target): number for node, numbers in marks.items() for target in numbers}


@pytest.mark.parametrize("changed", range(len(terms("c").pairs) + 1))
def test_which_pairs_have_changed_costs_no_more_than_a_bit_for_every_pair(changed: int):
    encoder, decoder = ends()
    past = dict.fromkeys(terms("c").pairs[:changed], 9)
    copy = Copy(COPY.path, {"c": {target: past.get(("c", target), 0) + 1 for target in "dg"}}, past)
    found, size = through(encoder, decoder, copy)
    assert found == copy
    # Flags, the first of the path, who marked it, targets; which pairs; a difference of each.
    assert size == 1 + 1 + 1 + 1 + min(1 + changed, terms("c").bits_bytes) + changed


def test_a_bit_for_a_pair_that_there_is_not_is_refused():
    header, _ = Encoder(terms("c"), "c").encode(Copy(COPY.path, COPY.marks, dict.fromkeys(terms("c").pairs, 1)))
    bits_end = len(header) - len(terms("c").pairs)
    beyond = bytes([header[bits_end - 1] | 0x80])
    with pytest.raises(HeaderError, match="cannot be"):
        Decoder(terms("d"), "c", "d").decode(header[: bits_end - 1] + beyond + header[bits_end:] + b"\2")


def test_a_copy_that_is_passed_on_as_it_came_names_its_forwarder():
    encoder, decoder = ends()
    copy = Copy(("a", "b"), {"b": {"c": 4, "d": 2}}, {("b", "d"): 1}, {"a": {"b": 7, "c": 7}}, void=True, borrowed=True)
    assert through(encoder, decoder, copy)[0] == copy


def test_what_the_receiver_does_not_care_about_is_left_out():
    near = [(f"{n}", f"{n + 1}") for n in range(9)]
    both = [LinkTerms(Neighbourhood(own, near), "5", "6", REACH) for own in ("5", "6")]
    copy = Copy(
        ("1", "2", "3", "4", "5"), {"2": {"3": 9, "4": 9}, "5": {"6": 1, "7": 1}}, {("1", "2"): 3, ("4", "6"): 2}
    )
    header, _ = Encoder(both[0], "5").encode(copy)
    found = Decoder(both[1], "5", "6").decode(header)
    assert found == Copy(("3", "4", "5"), {"5": {"6": 1, "7": 1}}, {("4", "6"): 2})


def test_a_broker_may_have_more_targets_than_a_number_has_bits():
    leaves = [f"{n:03}" for n in range(200)]
    edges = [("hub", leaf) for leaf in leaves]
    both = [LinkTerms(Neighbourhood(own, edges), "hub", "000", REACH) for own in ("hub", "000")]
    copy = Copy(("hub",), {"hub": dict.fromkeys(leaves, 1)}, {})
    header, _ = Encoder(both[0], "hub").encode(copy)
    assert Decoder(both[1], "hub", "000").decode(header) == copy


def test_the_thesis_counts_names_and_numbers_of_four_bytes():
    _, size = Encoder(terms("c"), "c").encode(
        Copy(COPY.path, COPY.marks, {("a", "b"): 3, ("a", "c"): 2, ("b", "c"): 5})
    )
    assert size.thesis_bytes == 3 * 4 + 6 * 8 + 2 * 4 + 3 * 8
    assert size.thesis_whole_bytes == 3 * 4 + 6 * 8 + 4 * len(terms("c").pairs)


PAIRS = terms("c").pairs
PASTS = st.dictionaries(st.sampled_from(PAIRS), st.integers(1, 1 << 40))


@given(st.lists(st.tuples(PASTS, st.integers(1, 300), st.booleans()), max_size=6))
@settings(max_examples=200, deadline=None)
def test_any_sequence_of_pasts_comes_through(sequence: list[tuple[Numbers, int, bool]]):
    encoder, decoder = ends()
    for past, number, void in sequence:
        copy = Copy(("b", "c"), {"b": {"d": number}, "c": {"d": 1, "g": number}}, past, void=void)
        assert through(encoder, decoder, copy)[0] == copy


@given(st.binary(max_size=40))
@settings(max_examples=300, deadline=None)
def test_whatever_bytes_come_are_a_copy_or_an_error(data: bytes):
    try:
        copy = Decoder(terms("d"), "c", "d").decode(data)
    except HeaderError:
        return
    assert set(copy.path) <= set(terms("d").nodes)


def test_a_header_that_goes_on_is_refused():
    header, _ = Encoder(terms("c"), "c").encode(COPY)
    with pytest.raises(HeaderError, match="too many"):
        Decoder(terms("d"), "c", "d").decode(header + b"\0")
