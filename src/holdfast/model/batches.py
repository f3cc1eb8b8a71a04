"""Messages, and the batches in which they travel.

A batch is a run of consecutive messages of one publisher on one topic with one guarantee; its identity is
`(publisher, first..last)`. Payloads lie in one byte string, a column beside their lengths, so that a broker routes,
orders and buffers a batch by its header and never touches a payload, and so that looking at each message costs a slice.

A batch has a checksum over everything it says, which the publisher's client computes. Whoever takes a batch in from the
wire computes it again, and the frame proves that both are equal (see `model.wire`). Whoever makes other batches of one
(parts, or one of several) makes sure first that the old ones are what they were, so that no step is left uncovered.
"""

from array import array
from collections.abc import Iterable, Sequence
from itertools import repeat
from struct import Struct as Layout
from sys import byteorder
from typing import Annotated, Any, TypeVar

from msgspec import Meta, Struct
from msgspec.msgpack import Encoder
from msgspec.structs import astuple, force_setattr, replace

from holdfast.model.checksums import crc32
from holdfast.model.errors import HoldfastError, LocalMisuse, PeerViolation
from holdfast.model.filters import Filter, Value
from holdfast.model.guarantees import GUARANTEES, Guarantee
from holdfast.model.identities import TAG_CHARACTERS, name_of

PAYLOAD_BYTES_MAX = 1 << 20
BATCH_BYTES_MAX = 1 << 16
BATCH_COUNT_MAX = 4096
BATCH_COST_BYTES_MAX = 3 << 20
"""Whatever a batch is wrapped in on its way, it still fits into a frame."""
KEYS_MAX = 64
KEY_BYTES_MAX = 256
ATTRIBUTES_MAX = 64
SEQ_MAX = (1 << 53) - 1
COPIED_BYTES_MAX = 1 << 13
"""Below this size, one piece that was copied costs less than three that were not."""
TINY_BYTES, SHORT_BYTES, LONG_BYTES = Layout(">BB"), Layout(">BH"), Layout(">BI")
"""How MessagePack begins a byte string of one, two or four bytes of length."""
SHORT_ARRAY = 0x90
"""How it begins an array of up to 15 entries, whose number is added."""

NAME_CHARACTERS_MAX = 128
"""Of a name that people give; a client's identity has a mark and a tag besides."""
Name = Annotated[str, Meta(min_length=1, max_length=NAME_CHARACTERS_MAX + 1 + TAG_CHARACTERS)]
TopicText = Annotated[str, Meta(min_length=1, max_length=1024)]
Seq = Annotated[int, Meta(ge=1, le=SEQ_MAX)]
Count = Annotated[int, Meta(ge=1, le=BATCH_COUNT_MAX)]
Rank = Annotated[int, Meta(ge=0, le=3)]
Checksum = Annotated[int, Meta(ge=0, le=(1 << 32) - 1)]
Key = Annotated[str, Meta(max_length=KEY_BYTES_MAX)]
Keys = Annotated[tuple[Key, ...], Meta(max_length=KEYS_MAX)]
Attributes = Annotated[dict[str, Value], Meta(max_length=ATTRIBUTES_MAX)]
# The decoder sees these limits before it makes anything: a small frame cannot become a large batch.
KeysColumn = Annotated[tuple[Keys, ...], Meta(max_length=BATCH_COUNT_MAX)]
AttributesColumn = Annotated[tuple[Attributes, ...], Meta(max_length=BATCH_COUNT_MAX)]
Choice = Sequence[int] | None
"""Which messages of a batch somebody wants: the places in it, in order, or `None` for all of them."""
T = TypeVar("T")


_encode = Encoder().encode


class Message(Struct, frozen=True, gc=False):
    """One message as an application sees it: `publisher` is the name that was given, not an identity."""

    topic: str
    payload: bytes
    publisher: str
    seq: int
    guarantee: Guarantee
    keys: Keys = ()
    attributes: Attributes = {}
    crossed: bool = False
    """Whether subscribers may have received it on different sides of a `total` message that shares one of its keys."""

    @property
    def delivery_count(self) -> int:
        """How often it was handed out, as far as is known: more than once only if it is acknowledged by itself."""
        return 1

    @property
    def redelivered(self) -> bool:
        return self.delivery_count > 1

    def ack(self, *, cumulative: bool = False) -> Any:
        """Acknowledge the message, which is finished; for subscriptions with `ack="manual"`."""
        raise self._not_manual(f"ack(cumulative={cumulative})")

    def nack(self, delay_s: float = 0.0) -> None:
        """Give the message back, to come again after that time; for subscriptions with `ack="manual"`."""
        raise self._not_manual(f"nack(delay_s={delay_s:g})")

    def _not_manual(self, what: str) -> LocalMisuse:
        return LocalMisuse(
            f"{what} was called on message {self.seq} of {self.publisher} to {self.topic}, whose subscription "
            'acknowledges by itself; subscribe with durable=NAME, ack="manual" to answer messages. Nothing was done.'
        )


class BatchError(PeerViolation, ValueError):
    """A batch whose columns do not fit together."""


class AlteredBatch(HoldfastError):  # noqa: N818 - it says what happened
    """Raised when a batch in our own memory is not what came: nothing that this process holds can be trusted."""


class Batch(Struct, frozen=True, array_like=True, gc=False, eq=False):
    """Consecutive messages of one publisher on one topic with one guarantee.

    `lengths` is empty when every payload has the same size, else one little-endian 32-bit length a message. `keys` and
    `attributes` hold nothing, one entry that counts for every message, or one entry a message. What a message by itself
    does not need comes last: on the wire it is left away (see `model.wire`). The `checksum` is no part of what a batch
    says, so batches that say the same are equal with or without it; `None` is for one that has not left its maker yet.
    """

    publisher: Name
    first: Seq
    topic: TopicText
    guarantee: Rank
    payloads: bytes
    keys: KeysColumn = ()
    attributes: AttributesColumn = ()
    count: Count = 1
    lengths: bytes = b""
    crossed: bool = False
    """Whether it takes no part in the total order of its keys, and some broker has found that out on its way."""
    checksum: Checksum | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Batch) and astuple(self)[:-1] == astuple(other)[:-1]

    def __hash__(self) -> int:
        return hash((self.publisher, self.first, self.count))

    @property
    def last(self) -> int:
        return self.first + self.count - 1

    @property
    def cost_bytes(self) -> int:
        """What the batch weighs in flow control: its columns and a flat charge for the header."""
        cost = len(self.payloads) + len(self.lengths) + 64
        if self.keys or self.attributes:
            # Their texts count: a short column may hold much, and whoever keeps it is to be paid for it.
            return cost + _weighed.texts_bytes(self)
        return cost

    # -------------------------------------------------------------------------------------------------- checksums

    def pieces(self) -> tuple[bytes, bytes, bytes]:
        """The batch in bytes: what stands before the payloads, the payloads, and what stands behind them.

        It is an array of fields in which those at the end that are as in a message by itself are left away.
        """
        size, columns = len(self.payloads), self._columns()
        before = _encode((self.publisher, self.first, self.topic, self.guarantee))[1:]
        if size <= 0xFF:
            header = TINY_BYTES.pack(0xC4, size)
        else:
            header = SHORT_BYTES.pack(0xC5, size) if size <= 0xFFFF else LONG_BYTES.pack(0xC6, size)
        behind = _encode(columns)[1:] if columns else b""
        return b"%c%b%b" % (SHORT_ARRAY + 5 + len(columns), before, header), self.payloads, behind

    def said(self) -> tuple[object, ...]:
        """The same as fields, for an encoder."""
        return self.publisher, self.first, self.topic, self.guarantee, self.payloads, *self._columns()

    def _columns(self) -> tuple[object, ...]:
        """What is said of a batch behind its payloads."""
        if self.crossed:
            return self.keys, self.attributes, self.count, self.lengths, True
        if self.count != 1 or self.lengths:
            return self.keys, self.attributes, self.count, self.lengths
        if self.attributes:
            return self.keys, self.attributes
        return (self.keys,) if self.keys else ()

    def computed_checksum(self) -> int:
        """CRC-32 of the batch in bytes."""
        if len(self.payloads) < COPIED_BYTES_MAX:
            return crc32(_encode(self.said()))
        before, payloads, behind = self.pieces()
        return crc32(behind, crc32(payloads, crc32(before)))

    def seal(self, checksum: int | None = None) -> int:
        """Give the batch the checksum of what it says now, which somebody may have computed already."""
        found = self.computed_checksum() if checksum is None else checksum
        force_setattr(self, "checksum", found)
        return found

    def verify(self) -> None:
        """Raise `AlteredBatch` unless the batch still says what it said when it got its checksum, if it has one."""
        if self.checksum is not None and self.computed_checksum() != self.checksum:
            raise AlteredBatch(
                f"batch {self.publisher}#{self.first} was altered in the memory of this process: its checksum is not "
                "that of what it says. Nothing of it is passed on, and the process ends, since nothing that it holds "
                "can be trusted; start it again, and have the machine's memory tested"
            )

    # ------------------------------------------------------------------------------------------------- what it says

    def key_set(self) -> Sequence[str]:
        """Every key that some message of the batch has, in order of first appearance."""
        if len(self.keys) <= 1:
            return self.keys[0] if self.keys else ()
        return tuple(dict.fromkeys(key for keys in self.keys for key in keys))

    def keys_of(self, index: int) -> Keys:
        return self.keys[index if len(self.keys) > 1 else 0] if self.keys else ()

    def attributes_of(self, index: int) -> Attributes:
        return self.attributes[index if len(self.attributes) > 1 else 0] if self.attributes else {}

    def payload_list(self) -> list[bytes]:
        """The payloads, cut out of their column."""
        payloads, count = self.payloads, self.count
        if count == 1:
            return [payloads]
        if not self.lengths:
            # One call that cuts them all costs a fifth of a slice each.
            return list(Layout(f"{len(payloads) // count}s" * count).unpack(payloads))
        pieces, at = [], 0
        for length in unpack_lengths(self.lengths):
            pieces.append(payloads[at : at + length])
            at += length
        return pieces

    def messages(self) -> list[Message]:
        """The messages one by one."""
        publisher = name_of(self.publisher)
        if self.count == 1:
            keys, attributes, rank = self.keys_of(0), self.attributes_of(0), GUARANTEES[self.guarantee]
            return [
                Message(self.topic, self.payloads, publisher, self.first, rank, keys, attributes, self.has_crossed(0))
            ]
        # Hardly any message has crossed another: the others do not pay for it.
        crossed = (map(self.has_crossed, range(self.count)),) if self.crossed else ()
        return list(
            map(
                Message,
                repeat(self.topic),
                self.payload_list(),
                repeat(publisher),
                range(self.first, self.first + self.count),
                repeat(GUARANTEES[self.guarantee]),
                _unfolded(self.keys, ()),
                _unfolded(self.attributes, {}),
                *crossed,
            )
        )

    def has_crossed(self, index: int) -> bool:
        """Whether that message of the batch has crossed another: one without keys can be in no order with any."""
        return self.crossed and bool(self.keys_of(index))

    def as_crossed(self) -> "Batch":
        """The same batch with the word that it takes no part in the total order of its keys."""
        if self.crossed:
            return self
        self.verify()
        flagged = replace(self, crossed=True, checksum=None)
        if self.checksum is not None:
            flagged.seal()
        return flagged

    def check(self) -> None:
        """Raise `BatchError` unless the columns fit together: what a broker asks once, where a batch enters."""
        # A message by itself is the common case when there is little to do: it has no columns that might not fit.
        alone = self.count == 1 and not (self.lengths or self.keys or self.attributes)
        if alone and len(self.payloads) <= PAYLOAD_BYTES_MAX and self.first <= SEQ_MAX:
            return
        longest = self.check_columns()
        who = f"batch {self.publisher}#{self.first}"
        if longest > PAYLOAD_BYTES_MAX:
            raise BatchError(f"{who} has a payload of {longest} bytes; at most {PAYLOAD_BYTES_MAX} are allowed")
        if self.cost_bytes > BATCH_COST_BYTES_MAX:
            raise BatchError(f"{who} weighs {self.cost_bytes} bytes; at most {BATCH_COST_BYTES_MAX} are allowed")
        if self.last > SEQ_MAX:
            raise BatchError(f"{who} numbers its messages past {SEQ_MAX}")

    def check_columns(self) -> int:
        """Raise `BatchError` unless every message has its part of each column; the size of the longest payload.

        What any node asks of a batch before it cuts it, for the peer that sent it may not have asked.
        """
        who = f"batch {self.publisher}#{self.first}"
        if self.lengths:
            if len(self.lengths) != 4 * self.count:
                raise BatchError(f"{who} has {self.count} messages but {len(self.lengths)} bytes of lengths")
            lengths = unpack_lengths(self.lengths)
            if sum(lengths) != len(self.payloads):
                raise BatchError(f"{who} has lengths that do not add up to its {len(self.payloads)} payload bytes")
            longest = max(lengths)
        else:
            longest, left = divmod(len(self.payloads), self.count)
            if left:
                raise BatchError(f"{who} has {self.count} equal messages in {len(self.payloads)} payload bytes")
        for name, column in (("keys", self.keys), ("attributes", self.attributes)):
            if len(column) not in (0, 1, self.count):
                raise BatchError(f"{who} has {self.count} messages but {len(column)} entries of {name}")
        return longest

    def part(self, first: int, last: int) -> "Batch":
        """The messages `first..last` as a batch of their own."""
        if first == self.first and last == self.last:
            return self
        self.verify()
        return self._cut(first, last)

    def _cut(self, first: int, last: int) -> "Batch":
        """The same of a batch that was verified."""
        start, stop = first - self.first, last - self.first + 1
        if start == 0 and stop == self.count:
            return self
        if self.lengths:
            lengths = unpack_lengths(self.lengths)
            begin = sum(lengths[:start])
            end = begin + sum(lengths[start:stop])
            column = self.lengths[4 * start : 4 * stop]
        else:
            size = len(self.payloads) // self.count
            begin, end, column = size * start, size * stop, b""
        part = Batch(
            self.publisher,
            first,
            self.topic,
            self.guarantee,
            self.payloads[begin:end],
            self.keys[start:stop] if len(self.keys) > 1 else self.keys,
            self.attributes[start:stop] if len(self.attributes) > 1 else self.attributes,
            last - first + 1,
            column,
            self.crossed,
        )
        if self.checksum is not None:
            part.seal()
        return part

    def matching(self, filters: tuple[Filter, ...] | None) -> list["Batch"]:
        """What some filter lets through, as few batches as possible; `None` lets everything through."""
        if filters is None:
            return [self]
        if len(self.attributes) <= 1:
            return [self] if any_match(filters, self.attributes_of(0)) else []
        self.verify()
        return self._chosen([number for number, one in enumerate(self.attributes) if any_match(filters, one)])

    def chosen(self, choice: Choice) -> list["Batch"]:
        """These of its messages, as few batches as possible."""
        if choice is None:
            return [self]
        if choice:
            self.verify()
        return self._chosen(choice)

    def _chosen(self, numbers: Sequence[int]) -> list["Batch"]:
        """The same of a batch that was verified: a batch for every run of consecutive messages."""
        runs: list[list[int]] = []
        for number in numbers:
            if runs and number == runs[-1][1] + 1:
                runs[-1][1] = number
            else:
                runs.append([number, number])
        return [self._cut(self.first + first, self.first + last) for first, last in runs]

    def wanted_by(self, filters: tuple[Filter, ...] | None) -> bool:
        """Whether some message of the batch gets through some filter."""
        if filters is None:
            return True
        return any(any_match(filters, attributes) for attributes in self.attributes or ({},))


class _Weighed:
    """The batch whose texts were weighed last: each broker asks some ten times in a row what a batch weighs.

    Keys and attributes of two thousand messages are encoded for that, which takes as long as all else that is done with
    them.
    """

    __slots__ = ("batch", "bytes")

    def __init__(self) -> None:
        self.batch: Batch | None = None
        self.bytes = 0

    def texts_bytes(self, batch: Batch) -> int:
        """What its keys and attributes weigh."""
        if batch is not self.batch:
            self.batch, self.bytes = batch, len(_encode((batch.keys, batch.attributes)))
        return self.bytes


_weighed = _Weighed()


def any_match(filters: tuple[Filter, ...], attributes: Attributes) -> bool:
    return any(one.matches(attributes) for one in filters)


def unpack_lengths(lengths: bytes) -> "array[int]":
    column = array("I")
    column.frombytes(lengths)
    if byteorder == "big":
        column.byteswap()
    return column


def pack_lengths(sizes: Sequence[int]) -> bytes:
    column = array("I", sizes)
    if byteorder == "big":
        column.byteswap()
    return column.tobytes()


def make_batch(
    publisher: str,
    first: int,
    topic: str,
    guarantee: int,
    payloads: Sequence[bytes],
    keys: Sequence[Keys] = (),
    attributes: Sequence[Attributes] = (),
) -> Batch:
    """A batch of these payloads; the columns of keys and attributes are folded when all their entries are equal."""
    count = len(payloads)
    sizes = list(map(len, payloads))
    uniform = count == 1 or sizes.count(sizes[0]) == count
    return Batch(
        publisher,
        first,
        topic,
        guarantee,
        payloads[0] if count == 1 else b"".join(payloads),
        _folded(keys),
        _folded_attributes(attributes),
        count,
        b"" if uniform else pack_lengths(sizes),
    )


def merged(batches: Sequence[Batch]) -> Batch:
    """Adjacent batches of one publisher, topic and guarantee as one."""
    head = batches[0]
    if len(batches) == 1:
        return head
    for batch in batches:
        batch.verify()
    whole = make_batch(
        head.publisher,
        head.first,
        head.topic,
        head.guarantee,
        [payload for batch in batches for payload in batch.payload_list()],
        [batch.keys_of(index) for batch in batches for index in range(batch.count)],
        [batch.attributes_of(index) for batch in batches for index in range(batch.count)],
    )
    if head.checksum is not None:
        whole.seal()
    return whole


def _unfolded(column: Sequence[T], blank: T) -> Iterable[T]:
    """An entry for every message; messages that have the same share it."""
    return column if len(column) > 1 else repeat(column[0] if column else blank)


def _folded(column: Sequence[T]) -> tuple[T, ...]:
    if not column or not any(column):
        return ()
    if len(column) > 1 and column.count(column[0]) == len(column):
        return (column[0],)
    return tuple(column)


def _folded_attributes(column: Sequence[Attributes]) -> tuple[Attributes, ...]:
    """Folded if the entries are alike: 1, 1.0 and True are equal, but filters tell them apart."""
    folded = _folded(column)
    if len(folded) == 1:
        kinds = {name: type(value) for name, value in folded[0].items()}
        if any(type(one[name]) is not kind for one in column for name, kind in kinds.items()):
            return tuple(column)
    return folded
