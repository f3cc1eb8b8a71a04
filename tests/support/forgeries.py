"""Well-typed words of a peer that keeps to the wire and to nothing else.

A forger makes any message or frame of `model.messages` from its type alone, so a new message is forged as soon as it is
there. What it fills in is what an attacker would know: names of brokers and clients, epochs, tokens and link numbers
that it has seen, and some that cannot be.
"""

import typing
from random import Random
from typing import Any

import msgspec
from msgspec import Struct, inspect

from holdfast.model.batches import Attributes, Batch, make_batch, pack_lengths
from holdfast.model.messages import Frame, Join, Kind, SessionMessage, Twig

ALL_MESSAGES: tuple[type[Struct], ...] = typing.get_args(SessionMessage)
ALL_FRAMES: tuple[type[Struct], ...] = typing.get_args(Frame)

TOPICS = ("a", "b", "a/b", "$reserved/x", "orders")
NO_TOPICS = ("#", "a/+", "/", "a//b", "$", " ")
PATTERNS = ("a", "b", "#", "a/#", "+/b", "orders")
FILTERS = ("", "", "", "x = 1", "x > 1 AND y = 'b'")
NO_FILTERS = ("x =", "((", "'")
KEYS = ("", "k", "l")
LARGEST = (1 << 63) - 1
STRANGER = "nobody-knows"


class Forger:
    """Makes words. `names` are those of the cast; `numbers` are learnt by listening (`hear`)."""

    def __init__(self, chance: Random, names: typing.Sequence[str], own: str) -> None:
        self.chance, self.names, self.own = chance, [*names, own, own, STRANGER], own
        self.numbers: list[int] = [1, 2, 3]
        self.epochs: list[int] = [1]
        self._next_number: dict[str, int] = {}

    # ------------------------------------------------------------------------------------------------- listening

    def hear(self, word: object) -> None:
        """Remember the numbers and the names in what somebody said."""
        if isinstance(word, Struct):
            for name in word.__struct_fields__:
                value = getattr(word, name)
                if name in ("epoch", "session"):
                    self._keep(self.epochs, value)
                elif isinstance(value, int) and not isinstance(value, bool):
                    self._keep(self.numbers, value)
                else:
                    self.hear(value)
        elif isinstance(word, tuple | list) and len(word) < 50:
            for one in word:
                self.hear(one)

    @staticmethod
    def _keep(seen: list[int], value: int) -> None:
        if value not in seen:
            seen.append(value)
            if len(seen) > 60:
                del seen[3]

    # --------------------------------------------------------------------------------------------------- forging

    def message(self, kinds: typing.Sequence[type[Struct]] = ALL_MESSAGES) -> Any:
        """One message of one of these types."""
        return self.struct(self.chance.choice(kinds))

    def struct(self, kind: type[Struct], depth: int = 0) -> Any:
        if kind is Batch:
            return self.batch()
        if kind is Twig and self.chance.random() < 0.3:
            return self.own_twig()
        info = typing.cast("inspect.StructType", inspect.type_info(kind))
        values = {}
        for field in info.fields:
            if field.required or self.chance.random() < 0.7:
                values[field.name] = self._value(field.type, field.name, depth)
        made = kind(**values)
        if isinstance(made, Join) and self.chance.random() < 0.8:
            made = msgspec.structs.replace(made, twig=self.own_twig())
        return made

    def own_twig(self) -> Twig:
        """The forger itself, with whom it likes below it."""
        below = tuple(self.struct(Twig, 3) for _ in range(self.chance.choice((0, 0, 1, 2))))
        kind: Kind = "client" if self.chance.random() < 0.7 else "broker"
        return Twig(self.own, kind, self.number(epoch=True), self.chance.choice(("", "somewhere")), below)

    def batch(self) -> Batch:
        chance, count = self.chance, self.chance.choice((1, 1, 1, 2, 3))
        publisher = self.own if chance.random() < 0.6 else self.name()
        first = self._next_number.get(publisher, 1) if chance.random() < 0.7 else max(1, min(self.number(), 1 << 50))
        topic = chance.choice(TOPICS) if chance.random() < 0.98 else chance.choice(NO_TOPICS)
        sizes = [chance.choice((0, 1, 10)) for _ in range(count)]
        keys = [tuple(chance.sample(KEYS, chance.choice((0, 1, 2)))) for _ in range(count)]
        attributes: list[Attributes] = [
            {"x": chance.choice((1, 2, "b"))} if chance.random() < 0.3 else {} for _ in range(count)
        ]
        rank = chance.randrange(4)
        made = make_batch(publisher, first, topic, rank, [bytes(size) for size in sizes], keys, attributes)
        if first == self._next_number.get(publisher, 1):
            self._next_number[publisher] = first + count
        if chance.random() < 0.02:
            changes: list[dict[str, Any]] = [
                {"count": 5},
                {"lengths": pack_lengths([1] * (count + 1))},
                {"payloads": bytes(7), "count": 3},
                {"keys": (("k",), ("k",), ("k",), ("k",), ("k",))},
            ]
            made = msgspec.structs.replace(made, **chance.choice(changes))
        return made

    def name(self) -> str:
        return self.chance.choice(self.names)

    def number(self, epoch: bool = False) -> int:
        draw = self.chance.random()
        if draw < 0.15:
            return self.chance.choice((0, 1, 2, LARGEST))
        return self.chance.choice(self.epochs if epoch else self.numbers)

    def _value(self, kind: inspect.Type, field: str, depth: int) -> Any:
        chance = self.chance
        if isinstance(kind, inspect.UnionType):
            return self._value(chance.choice(kind.types), field, depth)
        if isinstance(kind, inspect.StructType):
            return self.struct(kind.cls, depth + 1)
        if isinstance(kind, inspect.LiteralType):
            return chance.choice(kind.values)
        if isinstance(kind, inspect.BoolType):
            return chance.random() < 0.5
        if isinstance(kind, inspect.NoneType):
            return None
        if isinstance(kind, inspect.IntType):
            low = kind.ge or 0
            value = self.number(field in ("epoch", "session", "meant", "old_epoch"))
            high = kind.le if kind.le is not None else kind.lt - 1 if kind.lt is not None else LARGEST
            return max(low, min(value, high))
        if isinstance(kind, inspect.FloatType):
            return chance.choice((0.0, 0.001, 2.5, 1e9, float("inf")))
        if isinstance(kind, inspect.BytesType):
            return bytes(chance.randrange(256) for _ in range(chance.choice((0, 1, 4, 12))))
        if isinstance(kind, inspect.StrType):
            return self._text(field)
        return self._collection(kind, field, depth)

    def _collection(self, kind: inspect.Type, field: str, depth: int) -> Any:
        chance = self.chance
        if isinstance(kind, inspect.VarTupleType):
            count = 0 if depth > 3 else chance.choice((0, 1, 1, 2, 3))
            return tuple(self._value(kind.item_type, field, depth + 1) for _ in range(count))
        if isinstance(kind, inspect.TupleType):
            return tuple(self._member(one, place, field, depth + 1) for place, one in enumerate(kind.item_types))
        if isinstance(kind, inspect.DictType):
            return {
                self.name(): self._value(kind.value_type, field, depth + 1) for _ in range(chance.choice((0, 1, 3)))
            }
        raise NotImplementedError(f"nobody has said how to forge a {kind}")

    def _member(self, kind: inspect.Type, place: int, field: str, depth: int) -> Any:
        """One place of a pair: a dead node with its epoch, an interest, a place on a path."""
        if field in ("dead", "lost", "alive"):
            return self.name() if place == 0 else self.number(epoch=True)
        if field in ("interests", "unconfirmed", "entries"):
            return self._text("pattern" if place == 0 else "where")
        return self._value(kind, field, depth)

    def _text(self, field: str) -> str:
        chance = self.chance
        legal = chance.random() < 0.98
        if field in ("pattern", "patterns"):
            return chance.choice(PATTERNS if legal else ("a/#/b", "#a"))
        if field in ("topic", "clock"):
            return chance.choice(TOPICS if legal else NO_TOPICS)
        if field == "where":
            return chance.choice(FILTERS if legal else NO_FILTERS)
        if field == "keys":
            return chance.choice(KEYS)
        if field == "cluster":
            return "holdfast" if legal else "another"
        if field == "address":
            return chance.choice(("", self.name(), "127.0.0.1:1"))
        if field == "reason":
            return "because"
        return self.name()
