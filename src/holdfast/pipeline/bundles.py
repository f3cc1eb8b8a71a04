"""The repositories of a reliable topic, as whoever reads it asks them: over HTTP, any of them, one for the other.

A number of a lane means the same message at every repository, so a reader that loses one goes on at the next number
with another. A repository may lack what a sibling has, for a moment or because it is damaged there: then the next one
is asked, and all of them again, until `patience_s` is over.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from threading import Event
from time import monotonic
from typing import TypeVar
from urllib.parse import urlencode

import msgspec
from msgspec.structs import replace

from holdfast.client.addresses import Address, parse_addresses, shown
from holdfast.model.errors import HoldfastError
from holdfast.model.lanes import (
    Block,
    Holdings,
    Lane,
    decode_block,
    decode_holdings,
    decode_located,
    lane_name,
)
from holdfast.pipeline.logs import LogError
from holdfast.protocols.narada.events import number_of

ANSWER_S = 5.0
"""A repository that says nothing for so long is taken for gone."""
PAUSE_S = 0.1
PATIENCE_S = 30.0

T = TypeVar("T")


class Unanswered(HoldfastError):  # noqa: N818 - it says what happened
    """Raised when a repository gives no answer now; another one may, or this one later."""


class Bundle:
    """The repositories of one stream. Nothing is held open between two questions."""

    def __init__(
        self, stream: str, addresses: str | Sequence[str], subscriber: str = "spark", patience_s: float = PATIENCE_S
    ) -> None:
        """`subscriber` is the name that the owner of the stream has registered, if it registers any."""
        self.stream, self.patience_s = stream, patience_s
        self.addresses = parse_addresses(addresses)
        self._subscriber = subscriber

    def __str__(self) -> str:
        return f"the reliable topic {self.stream}"

    # ---------------------------------------------------------------------------------------------------- what there is

    def holdings(self) -> tuple[list[Holdings], dict[str, str]]:
        """What each repository has that has caught up; of the others, by address, why they do not count.

        Somebody counts: as long as nobody does, all are asked again.
        """
        return self._patiently(self._holdings)

    def _holdings(self) -> tuple[list[Holdings], dict[str, str]]:
        # All at once: one that is frozen keeps us waiting, and two do not twice as long.
        with ThreadPoolExecutor(len(self.addresses)) as threads:
            answers = list(threads.map(self._holdings_of, self.addresses))
        found = [one for one in answers if isinstance(one, Holdings) and one.serving]
        missing = {
            shown(address): "it has not caught up with the others" if isinstance(one, Holdings) else str(one)
            for address, one in zip(self.addresses, answers, strict=True)
            if not (isinstance(one, Holdings) and one.serving)
        }
        if not found:
            raise Unanswered(_listed(missing))
        return found, missing

    def _holdings_of(self, address: Address) -> Holdings | Unanswered:
        try:
            return decode_holdings(self._get(address, "/lanes", {}))
        except Unanswered as error:
            return error

    def located(self, repository: str = "", **where: int) -> tuple[Lane, ...]:
        """For each lane the part behind `sequence` or `time_ns`, as that repository says; without a name, any one."""

        def ask() -> tuple[Lane, ...]:
            missing: dict[str, str] = {}
            for address in self.addresses:
                try:
                    found = decode_located(self._get(address, "/locate", dict(where)))
                except Unanswered as error:
                    missing[shown(address)] = str(error)
                    continue
                if repository in ("", found.repository):
                    return found.lanes
                missing[shown(address)] = f"it is {found.repository}"
            raise Unanswered(f"{f'{repository} is not among them: ' if repository else ''}{_listed(missing)}")

        return self._patiently(ask)

    # ------------------------------------------------------------------------------------------------------- messages

    def blocks(self, publisher: str, life: int, first: int, end: int, topic: str = "") -> Iterator[Block]:
        """The messages first..end-1 of a lane. A block ends before what was given up, or is such a gap alone."""
        at = first
        while at < end:
            block = self._patiently(lambda at=at: self._block(publisher, life, at, end, topic))  # type: ignore[misc]
            yield block
            at = block.upto

    def _block(self, publisher: str, life: int, first: int, end: int, topic: str) -> Block:
        missing: dict[str, str] = {}
        gap: Block | None = None
        query: dict[str, str | int] = {"publisher": publisher, "life": life, "first": first, "last": end - 1}
        if topic:
            query["topic"] = topic
        for address in list(self.addresses):
            try:
                block = decode_block(self._get(address, "/messages", query))
            except Unanswered as error:
                missing[shown(address)] = str(error)
                continue
            begins = block.given_up[0][0] if block.given_up else block.upto
            if begins > first:
                self._prefer(address)
                return _before(block, begins)
            if block.given_up:
                # Another repository may have what this one has given up, or some of it.
                gap = min(filter(None, (gap, _gap_alone(block))), key=lambda one: one.upto)
            else:
                missing[shown(address)] = f"{block.repository} has it up to {block.end - 1}; {block.reason}".rstrip(
                    "; "
                )
        if gap is not None:
            return gap
        raise Unanswered(f"message {first} of {lane_name(publisher, life)} cannot be had: {_listed(missing)}")

    def _prefer(self, address: Address) -> None:
        """Go on with the one that answered: one that is frozen costs its time once."""
        if self.addresses[0] != address:
            self.addresses = (address, *(one for one in self.addresses if one != address))

    # --------------------------------------------------------------------------------------------------------- asking

    def _patiently(self, ask: Callable[[], T]) -> T:
        limit = monotonic() + self.patience_s
        while True:
            try:
                return ask()
            except Unanswered as error:
                if monotonic() >= limit:
                    raise LogError(
                        f"{self} cannot be read: {error}. This was tried for {self.patience_s:g} s; start a repository "
                        "that has it, and repeat the query, which goes on where it was."
                    ) from None
            Event().wait(PAUSE_S)

    def _get(self, address: Address, path: str, query: dict[str, str | int]) -> bytes:
        asked = urlencode({"stream": self.stream, "subscriber": self._subscriber, **query})
        connection = HTTPConnection(*address, timeout=ANSWER_S)
        try:
            connection.request("GET", f"{path}?{asked}")
            answer = connection.getresponse()
            body = answer.read()
        except TimeoutError:
            raise Unanswered(f"no answer within {ANSWER_S:g} s") from None
        except (OSError, HTTPException) as error:
            raise Unanswered(_why(error)) from None
        finally:
            connection.close()
        if answer.status == HTTPStatus.OK:
            return body
        said = _said(body)
        if answer.status in (HTTPStatus.BAD_REQUEST, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND):
            raise LogError(f"{shown(address)} refuses to tell: {said}")
        raise Unanswered(said)


def _before(block: Block, number: int) -> Block:
    """What of a block lies before a number at which a gap begins, or its end."""
    if number == block.upto:
        return block
    entries = tuple(entry for entry in block.entries if number_of(entry.cat) < number)
    return replace(block, upto=number, entries=entries, given_up=())


def _gap_alone(block: Block) -> Block:
    (first, last), *_ = block.given_up
    return replace(block, first=first, upto=last + 1, entries=(), given_up=((first, last),))


def _listed(missing: dict[str, str]) -> str:
    return "; ".join(f"{address}: {why}" for address, why in missing.items())


def _why(error: BaseException) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "nobody is listening there"
    return str(error) or type(error).__name__


def _said(body: bytes) -> str:
    try:
        return str(msgspec.json.decode(body)["error"])
    except (msgspec.DecodeError, KeyError, TypeError):
        return "it is no repository, or one of another version"
