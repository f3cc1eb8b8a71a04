"""What a LoCaMu broker writes down, and how it goes on from that.

The machine that must survive a crash is deterministic (`core`, and `durable` around it), so its inputs are enough: each
is a *record*, one value on the disk, written before anything that follows from it leaves. From time to time an image of
everything takes the place of the records so far. A crash may cut a group of writes anywhere: a record is one write, and
an image says which records it includes, so that those not erased yet do no harm.
"""

import msgspec
from msgspec import Struct

from holdfast.model.errors import PeerViolation
from holdfast.model.messages import Interest, SessionMessage
from holdfast.protocols.links import LinkImage
from holdfast.protocols.locamu.copies import Copy, Marks
from holdfast.protocols.locamu.core import CoreImage
from holdfast.protocols.node import Effects, Persist
from holdfast.protocols.slow_readers import Wish

RECORDS_MAX = 256
"""So many records, and an image takes their place."""
IMAGE_KEY = "image"
RECORD_KEY = "record "


class Began(Struct, tag="began"):
    """A client's session begins."""

    client: str
    session: int


class Born(Struct, tag="born"):
    """A broker, or we ourselves, are known by that birth from now on."""

    broker: str
    birth: int


class Left(Struct, tag="left"):
    """A client's session is over."""

    client: str


class Said(Struct, tag="said"):
    """What a client said on its session."""

    client: str
    message: SessionMessage


class Took(Struct, tag="took"):
    """The first copy of a message is processed."""

    copy: Copy


class Learnt(Struct, tag="learnt"):
    """More identifiers of a message that was processed."""

    marks: Marks


class Finished(Struct, tag="finished"):
    """Everybody behind us has that notice."""

    serial: int


class Welcomed(Struct, tag="welcomed"):
    """A newcomer is to be a leaf below us."""

    child: str
    place: str


class Bequeathed(Struct, tag="bequeathed"):
    """A newcomer is told with what it begins."""

    child: str


class Retired(Struct, tag="retired"):
    """We are going to leave the tree."""


class Released(Struct, tag="released"):
    """A leaf below us has left the tree."""

    child: str


Record = Began | Born | Left | Said | Took | Learnt | Finished | Welcomed | Bequeathed | Retired | Released


class Image(Struct, omit_defaults=True):
    """Everything, after that many records."""

    records: int
    core: CoreImage
    publishers: dict[str, int]
    sessions: list[LinkImage]
    retiring: list[str] = []
    wishes: dict[str, list[tuple[Interest, Wish]]] = {}
    """By client, what is done with what each subscription does not take: see `protocols.slow_readers`."""


_encoder = msgspec.msgpack.Encoder()
_record_decoder: msgspec.msgpack.Decoder[Record] = msgspec.msgpack.Decoder(Record)
_image_decoder = msgspec.msgpack.Decoder(Image)
_core_decoder = msgspec.msgpack.Decoder(CoreImage)


def encode_state(core: CoreImage) -> bytes:
    """A state for somebody else to go on from."""
    return _encoder.encode(core)


def decode_state(data: bytes) -> CoreImage:
    """What `encode_state` has written; raises `PeerViolation`."""
    try:
        return _core_decoder.decode(data)
    except msgspec.MsgspecError as error:
        raise PeerViolation(f"what a newcomer was to go on from cannot be understood: {error}") from None


class LocamuJournal:
    """The numbers of the records on the disk."""

    def __init__(self) -> None:
        self.last = 0
        self._kept: list[int] = []
        self._room = RECORDS_MAX

    def write(self, record: Record) -> Persist:
        self.last += 1
        self._kept.append(self.last)
        return Persist(f"{RECORD_KEY}{self.last}", _encoder.encode(record))

    @property
    def is_full(self) -> bool:
        return len(self._kept) >= self._room

    def replace(self, image: Image, size: int = 0) -> Effects:
        """The image goes to the disk, then the records that it includes are erased.

        The next one comes after as many records as this one has messages, if these are many: else a broker that keeps
        much for somebody who is away would write all of it again and again.
        """
        self._room = max(RECORDS_MAX, size)
        kept, self._kept = self._kept, []
        erased = [Persist(f"{RECORD_KEY}{number}", b"") for number in kept]
        return [Persist(IMAGE_KEY, _encoder.encode(image)), *erased]

    def erase(self) -> Effects:
        """Nobody is to go on from this."""
        kept, self._kept = self._kept, []
        return [Persist(key, b"") for key in (IMAGE_KEY, *(f"{RECORD_KEY}{number}" for number in kept))]

    def read(self, pairs: dict[str, bytes]) -> tuple[Image | None, list[Record]]:
        """The latest image, and the records after it in their order."""
        image = _image_decoder.decode(pairs[IMAGE_KEY]) if IMAGE_KEY in pairs else None
        numbers = sorted(int(key.removeprefix(RECORD_KEY)) for key in pairs if key.startswith(RECORD_KEY))
        self._kept = numbers
        after = image.records if image is not None else 0
        self.last = max([after, *numbers])
        return image, [_record_decoder.decode(pairs[f"{RECORD_KEY}{one}"]) for one in numbers if one > after]
