"""The header of a copy as bytes on one link, and what the thesis would have counted.

Both ends of a link know the tree around them, so a broker is an index into the brokers that both care about, a pair is
an index into the pairs among these, and the way that a copy came is the way in the tree from its first broker. What
remains is coded against what the link has carried already (thesis 3.9.3, and further):

    flags     void, last forwarder is not the sender, extra marks follow, pairs of the past as bits
    path      first broker; [last forwarder]; which of those on the way have marked it, as bits
    marks     for each of these: which targets, as bits; their numbers, against the past, nothing if each is the next
    past      which pairs differ from the base: how many, and of each the distance to the one before, or a bit for every
              pair, whichever is shorter; their differences

The *base* is the past of the copy before on the link, raised by that copy's own marks: in a steady stream that is the
next copy's past already. A link is a session that neither loses nor repeats, so both ends have the same base; a new
session begins with an empty one, which makes its first header whole (docs/papers/locamu.md, 5). All figures are
varints.
"""

from collections.abc import Iterator
from functools import lru_cache

from msgspec import Struct

from holdfast.model.batches import Batch
from holdfast.model.errors import PeerViolation
from holdfast.model.messages import Data
from holdfast.model.relay_messages import Relay
from holdfast.model.wire import encode
from holdfast.protocols.locamu.copies import Copy, Marks, Numbers, Pair, Reaches, learn
from holdfast.protocols.neighbourhoods import Neighbourhood

VOID, BORROWED, EXTRA, DENSE = 1, 2, 4, 8
NUMBER_MAX = (1 << 63) - 1
NUMBER_BITS = 64
"""A number with its sign."""
ID_BYTES = NUMBER_BYTES = 4
"""What the thesis counts (section 4.3.1)."""


class HeaderError(PeerViolation, ValueError):
    """A header that cannot be."""


class HeaderSize(Struct, frozen=True):
    """What one header weighs: here, and in the thesis with and without its own compression."""

    wire_bytes: int
    thesis_bytes: int
    thesis_whole_bytes: int


class LinkTerms:
    """What both ends of a link know without saying: the brokers and pairs that matter to both."""

    def __init__(self, near: Neighbourhood, one: str, other: str, reach: Reaches) -> None:
        self.near, self.reach = near, reach
        ours, theirs = near.paths(one), near.paths(other)
        self.nodes = sorted(name for name in ours if len(ours[name]) <= reach.safe and len(theirs[name]) <= reach.safe)
        self.index = {name: at for at, name in enumerate(self.nodes)}
        self.pairs: list[Pair] = [
            (x, y) for x in self.nodes for y in sorted(near.reached(x, reach.marks) & self.index.keys()) if y != x
        ]
        self.pair_index = {pair: at for at, pair in enumerate(self.pairs)}
        self.bits_bytes = -(-len(self.pairs) // 8)
        """What a bit for every pair takes."""
        self._candidates: dict[tuple[str, str], list[str]] = {}

    def _numbered(self, node: str, target: str) -> bool:
        return node != target and self.near.distance(node, target) <= self.reach.marks

    def candidates(self, node: str, before: str) -> list[str]:
        """Whom a forwarder may have marked a copy for that came to it from `before` (or from nobody we know)."""
        found = self._candidates.get((node, before))
        if found is None:
            found = [
                name
                for name in self.nodes
                if self._numbered(node, name) and (not before or self.near.towards(node, name) != before)
            ]
            self._candidates[node, before] = found
        return found


class Encoder:
    """The sending end of one session."""

    def __init__(self, terms: LinkTerms, sender: str) -> None:
        self.terms, self.sender = terms, sender
        self._base: Numbers = {}
        self._said: Numbers = {}

    def encode(self, copy: Copy) -> tuple[bytes, HeaderSize]:
        """The header of the next copy on the link, and what it weighs."""
        terms, out = self.terms, bytearray()
        path = _known(copy.path, terms)
        past, changed, said_anew = self._past(copy.past)
        marks, extra = _known_marks(copy.marks, path, terms), _known_marks(copy.extra, path, terms)
        borrowed, dense = path[-1] != self.sender, len(changed) >= terms.bits_bytes
        out.append(VOID * copy.void | BORROWED * borrowed | EXTRA * bool(extra) | DENSE * dense)
        _put(out, terms.index[path[0]])
        if borrowed:
            _put(out, terms.index[path[-1]])
        _put_marks(out, marks, path, past, terms)
        if extra:
            _put_marks(out, extra, path, past, terms)
        _put_places(out, changed, terms.bits_bytes if dense else 0)
        for pair in (terms.pairs[place] for place in changed):
            _put(out, _zigzag(past.get(pair, 0) - self._base.get(pair, 0)))
        self._base = _next_base(past, marks)
        self._said = past
        identifiers = thesis_identifier_bytes(marks, extra)
        whole = identifiers + NUMBER_BYTES * len(terms.pairs)
        return bytes(out), HeaderSize(len(out), identifiers + thesis_past_bytes(said_anew), whole)

    def _past(self, numbers: Numbers) -> tuple[Numbers, list[int], list[Pair]]:
        """What the other side keeps of a past, which pairs of it differ from the base, and which from the last past."""
        index, base, said = self.terms.pair_index, self._base, self._said
        past: Numbers = {}
        changed: list[int] = []
        said_anew: list[Pair] = []
        # One walk for all three: this is done for every copy, and a past has a hundred pairs.
        for pair, number in numbers.items():
            if pair in index:
                past[pair] = number
                if base.get(pair) != number:
                    changed.append(index[pair])
                if said.get(pair, 0) != number:
                    said_anew.append(pair)
        changed += [index[pair] for pair in base.keys() - past.keys()]
        return past, sorted(changed), said_anew


class Decoder:
    """The receiving end of one session."""

    def __init__(self, terms: LinkTerms, sender: str, receiver: str) -> None:
        self.terms, self.sender, self.receiver = terms, sender, receiver
        self._base: Numbers = {}

    def decode(self, header: bytes) -> Copy:
        """The copy that the header describes, without its content; raises `HeaderError`."""
        try:
            return self._decode(header)
        except (IndexError, KeyError, ValueError) as error:
            raise HeaderError(f"{self.sender} sent a header of {len(header)} bytes that cannot be: {error}") from None

    def _decode(self, header: bytes) -> Copy:
        terms, reader = self.terms, _Reader(header)
        flags = reader.byte()
        first = terms.nodes[reader.take()]
        last = terms.nodes[reader.take()] if flags & BORROWED else self.sender
        path = (first, *terms.near.paths(first)[last])
        if len(path) > terms.reach.safe or self.receiver in path:
            raise HeaderError(f"nothing comes to {self.receiver} along {' '.join(path)}")
        raw = _take_marks(reader, path, terms)
        raw_extra = _take_marks(reader, path, terms) if flags & EXTRA else {}
        places = _take_places(reader, terms.bits_bytes if flags & DENSE else 0)
        past = _take_past(reader, self._base, [terms.pairs[place] for place in places])
        if not reader.done:
            raise HeaderError(f"{len(header)} bytes are too many")
        marks, extra = _raised(raw, past), _raised(raw_extra, past)
        if self.receiver not in marks.get(last, ()):
            # By this number the copy is recognised when it comes again.
            raise HeaderError(f"{last} has no number of it for {self.receiver}")
        self._base = _next_base(past, marks)
        return Copy(path, marks, past, extra, void=bool(flags & VOID), borrowed=bool(flags & BORROWED))


# ---------------------------------------------------------------------------------------------- as the thesis counts


def thesis_identifier_bytes(marks: Marks, extra: Marks) -> int:
    """I_m (4.3.1): for each forwarder its name, for each of its targets a name and a number."""
    numbers = [*marks.values(), *extra.values()]
    return sum(ID_BYTES + (ID_BYTES + NUMBER_BYTES) * len(one) for one in numbers)


def thesis_past_bytes(changed: list[Pair]) -> int:
    """D_m compressed (4.3.1): 4 bytes for each column that changed, 8 for each entry."""
    return ID_BYTES * len({node for node, _ in changed}) + (ID_BYTES + NUMBER_BYTES) * len(changed)


def relay_overhead(relay: Relay, batch: Batch) -> int:
    """What one message of a batch costs on this link beyond topic, payload, keys and attributes: see `header_bytes`."""
    if batch.count == 1 and not batch.lengths:
        return _single_overhead(batch.publisher, batch.first.bit_length(), len(relay.header))
    bare = Batch(batch.publisher, batch.first, "-", batch.guarantee, b"", count=batch.count, lengths=batch.lengths)
    whole = len(encode(Data(1, Relay(relay.header, bare, None)))) - len(bare.topic)
    return -(-whole // batch.count)


@lru_cache(1 << 14)
def _single_overhead(publisher: str, number_bits: int, header_bytes: int) -> int:
    """The same for a message by itself. Bytes depend on lengths alone, so a few frames are written for very many."""
    bare = Batch(publisher, 1 << (number_bits - 1), "-", 0, b"")
    return len(encode(Data(1, Relay(bytes(header_bytes), bare, None)))) - len(bare.topic)


# ------------------------------------------------------------------------------------------------------------ parts


def _known(path: tuple[str, ...], terms: LinkTerms) -> tuple[str, ...]:
    """The end of the path that both sides know."""
    start = len(path)
    while start and path[start - 1] in terms.index:
        start -= 1
    return path[start:]


def _known_marks(marks: Marks, path: tuple[str, ...], terms: LinkTerms) -> Marks:
    found: Marks = {}
    for node in path:
        numbers = {target: n for target, n in marks.get(node, {}).items() if (node, target) in terms.pair_index}
        if numbers:
            found[node] = numbers
    return found


def _next_base(past: Numbers, marks: Marks) -> Numbers:
    base = dict(past)
    learn(base, {(node, target): n for node, numbers in marks.items() for target, n in numbers.items()})
    return base


def _put_marks(out: bytearray, marks: Marks, path: tuple[str, ...], past: Numbers, terms: LinkTerms) -> None:
    _put(out, sum(1 << at for at, node in enumerate(path) if node in marks))
    for at, node in enumerate(path):
        if node not in marks:
            continue
        numbers = marks[node]
        candidates = terms.candidates(node, path[at - 1] if at else "")
        bits = sum(1 << place for place, name in enumerate(candidates) if name in numbers)
        steps = [numbers[name] - past.get((node, name), 0) for name in candidates if name in numbers]
        regular = all(step == 1 for step in steps)
        _put(out, bits << 1 | (not regular))
        if not regular:
            for step in steps:
                _put(out, _zigzag(step))


RawMarks = dict[str, list[tuple[str, int]]]


def _take_marks(reader: "_Reader", path: tuple[str, ...], terms: LinkTerms) -> RawMarks:
    """Targets with their steps above the past, which is not known yet."""
    marked, found = reader.take(len(path)), RawMarks()
    if marked >> len(path):
        raise HeaderError("somebody outside of the path has marked it")
    for at, node in enumerate(path):
        if not marked >> at & 1:
            continue
        candidates = terms.candidates(node, path[at - 1] if at else "")
        bits = reader.take(len(candidates) + 1)
        if bits >> 1 >> len(candidates):
            raise HeaderError(f"{node} has marked it for somebody whom it does not number")
        names = [name for place, name in enumerate(candidates) if bits >> 1 >> place & 1]
        found[node] = [(name, _unzigzag(reader.take()) if bits & 1 else 1) for name in names]
    return found


def _raised(raw: RawMarks, past: Numbers) -> Marks:
    marks = {node: {name: past.get((node, name), 0) + step for name, step in steps} for node, steps in raw.items()}
    if not all(1 <= number <= NUMBER_MAX for numbers in marks.values() for number in numbers.values()):
        raise HeaderError(f"numbers are from 1 to {NUMBER_MAX}, not as in {marks}")
    return marks


def _put_places(out: bytearray, places: list[int], bits_bytes: int) -> None:
    """Rising figures: as so many bytes of bits, or, if that is 0, as distances."""
    if bits_bytes:
        bits = bytearray(bits_bytes)
        for place in places:
            bits[place >> 3] |= 1 << (place & 7)
        out += bits
        return
    _put(out, len(places))
    for before, place in zip([-1, *places], places, strict=False):
        _put(out, place - before - 1)


def _take_places(reader: "_Reader", bits_bytes: int) -> list[int]:
    if bits_bytes:
        bits = [reader.byte() for _ in range(bits_bytes)]
        return [at for at in range(8 * bits_bytes) if bits[at >> 3] >> (at & 7) & 1]
    places, at = [], -1
    for _ in range(reader.take()):
        at += 1 + reader.take()
        places.append(at)
    return places


def _take_past(reader: "_Reader", base: Numbers, changed: list[Pair]) -> Numbers:
    past = dict(base)
    for pair in changed:
        number = past.get(pair, 0) + _unzigzag(reader.take())
        if not 0 <= number <= NUMBER_MAX:
            raise HeaderError(f"its past has {number} of {pair[0]} for {pair[1]}")
        if number:
            past[pair] = number
        else:
            past.pop(pair, None)
    return past


def _zigzag(number: int) -> int:
    return number << 1 if number >= 0 else -number << 1 | 1


def _unzigzag(code: int) -> int:
    return -(code >> 1) if code & 1 else code >> 1


def _put(out: bytearray, number: int) -> None:
    """A varint: seven bits a byte, the lowest first."""
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


class _Reader:
    __slots__ = ("_bytes",)

    def __init__(self, data: bytes) -> None:
        self._bytes: Iterator[int] = iter(data)

    def byte(self) -> int:
        found = next(self._bytes, None)
        if found is None:
            raise HeaderError("it ends too early")
        return found

    def take(self, bits: int = NUMBER_BITS) -> int:
        """A varint of so many bits: one bit a target in some of them, and a broker may have hundreds of targets."""
        number = shift = 0
        while True:
            byte = self.byte()
            number |= (byte & 0x7F) << shift
            if byte <= 0x7F:
                return number
            shift += 7
            if shift >= bits:
                raise HeaderError(f"a figure of {bits} bits has more than {shift // 7} bytes")

    @property
    def done(self) -> bool:
        return next(self._bytes, None) is None
