"""`holdfast.connect`: from what an application says to an open client."""

import math
import os
from collections.abc import Iterable
from pathlib import Path
from ssl import SSLContext

from msgspec.structs import replace

from holdfast.client.addresses import Address, parse_addresses
from holdfast.client.arguments import (
    NAME_BYTES_MAX,
    option_count,
    option_flag,
    option_of_type,
    option_seconds,
    option_text,
    option_texts,
    plain,
    wrong,
)
from holdfast.client.endings import Outdated, Sited
from holdfast.client.names import draw_stride, new_identity, random_name
from holdfast.client.notices import Notices, OnConnected, OnDisconnected, OnGap
from holdfast.client.opening import Opening
from holdfast.client.session import Client
from holdfast.client.settings import ClientSettings
from holdfast.model.errors import ConfigError, Refused
from holdfast.model.topics import check_stream
from holdfast.protocols.config import ClientConfig, LinkConfig
from holdfast.runtime.process import new_incarnation
from holdfast.runtime.tracing import RUN, Trace, TraceTarget

MOVE_S = 0.06
"""Twice as long as brokers take to give one of theirs up: whoever is asked before that sends us back."""
LINK = LinkConfig(heartbeat_s=0.15, silence_s=0.6, redial_s=0.005, redial_max_s=0.5)
"""A frozen broker is noticed within a second; a connection that merely broke is there again at once."""
STEADY_LINK = replace(LINK, heartbeat_s=4.0, silence_s=12.0)
"""With a broker that tolerates no loss: there is nobody to move to, and thousands of clients that ask several times a
second whether their broker is there would keep it busy."""


Session = tuple[ClientConfig, int, tuple[Address, ...], Trace | None]
"""Who a client is in one session, which one it is, whom it asks, and where its history goes."""


def connect(
    address: str | Iterable[str],
    *,
    name: str | None = None,
    cluster: str = "holdfast",
    trace: TraceTarget | None = None,
    run: str = RUN,
    timeout_s: float = 10.0,
    give_up_s: float = 30.0,
    backlog_bytes_max: int = 4 << 20,
    link: LinkConfig | None = None,
    patient: bool = True,
    reliable: str | Iterable[str] = (),
    ssl: SSLContext | None = None,
    reconnect: bool | float = False,
    on_connected: OnConnected | None = None,
    on_disconnected: OnDisconnected | None = None,
    on_gap: OnGap | None = None,
) -> Opening[Client]:
    """Connect to a broker: `async with holdfast.connect("holdfast://127.0.0.1:7400") as client`, or await it.

    Of several addresses (separated by commas, or a list) the first that takes the client in is used. A connection that
    breaks is made again, and where brokers repair their tree a client whose broker is lost moves to another one:
    nothing is lost, repeated or reordered. Only after `give_up_s` without an answer is the session lost, and everybody
    who waits for something gets `SessionLost`; subscriptions raise `Gap`.

    - `name` identifies the publisher: `(name, seq)` is a message's identity. A name that was used before, at whatever
      broker, goes on behind its last number. Without one a random name is made. A name is one session's at a time:
      a client that has it already ends with `NameTaken`, and nothing that either has published is lost for it.
    - `cluster` must be the brokers' own; it keeps a client out of the wrong one.
    - `trace` is a directory or a `.jsonl` file for this client's history, or a callable that gets each row of it; `run`
      names the run in it.
    - `timeout_s` bounds the first connection and the closing.
    - `publish` waits while more than `backlog_bytes_max` is not accepted by the broker yet.
    - `patient`: while our part of a parted network has no majority of the brokers, what we publish as `total` waits;
      with `patient=False` it is refused, definitely: `await receipt.accepted()` raises `Refused`.
    - `reliable` declares reliable topics, by one or more patterns: what this client publishes there is stored by their
      repositories, as with `publish(..., durable=True)`, unless a publication says `durable=False`.

    - `reconnect`: a session that is lost (a broker that is alone was restarted, everybody was away for too long) is
      followed by another one, under the same name: `True` tries for ever, a number for so many seconds after each loss,
      less and less often. Subscriptions go on in it, and raise `Gap` once, with `goes_on`, where messages may be
      missing; the next iteration waits until the client is back. So does `publish`. What was published and has never
      left is published then; of what has left and was not accepted nobody knows whether it happened, and
      `receipt.accepted()`, `flush` and `close` raise `SessionLost`, which is indefinite. Without `reconnect`, and when
      another client takes the name, the loss of the session is the end of the client.
    - `on_connected(broker)` is called when the client has a session at that broker, for the first time or again,
      `on_disconnected(reason)` when it has no connection any more, and `on_gap(gap)` for every `Gap` that a
      subscription will raise. They may be coroutine functions. What they raise is logged.

    Raises `ConnectionFailed` when nobody is there, `Refused` when the broker says no.
    """
    addresses = parse_addresses(address)
    named = _checked_name(random_name() if name is None else name)
    known = ClientConfig(
        named,
        cluster=option_text("cluster", cluster),
        link=option_of_type("link", link, LinkConfig) or LINK,
        steady=link or STEADY_LINK,
        move_s=MOVE_S,
        give_up_s=option_seconds("give_up_s", give_up_s),
        patient=option_flag("patient", patient),
    )
    settings = ClientSettings(
        timeout_s=option_seconds("timeout_s", timeout_s),
        backlog_bytes_max=option_count("backlog_bytes_max", backlog_bytes_max, least=0),
        recall=name is not None,
        reliable=tuple(map(check_stream, option_texts("reliable", reliable))),
        reconnect_s=_reconnect_s(reconnect),
    )
    option_of_type("ssl", ssl, SSLContext)
    run = option_text("run", run)
    _check_trace(trace)

    notices = Notices(on_connected, on_disconnected, on_gap)

    def session(later: str, left: tuple[Address, ...] = addresses, fresh: bool = False) -> Session:
        # A name that was chosen may have been chosen twice; one that we draw is nobody else's.
        who = named if name is None else new_identity(named, later)
        rows = Trace(trace, who, run, fresh=fresh) if trace is not None else None
        return replace(known, name=who, stride=draw_stride()), new_incarnation(), left, rows

    async def begin() -> Client:
        left, later, sited = addresses, "", False
        while True:
            renew = session if settings.reconnect_s else None
            config, incarnation, left, rows = session(later, left, fresh=True)
            client = Client(config, incarnation, left, settings, rows, ssl, notices, renew, sited)
            try:
                return await client.open()
            except Outdated as outdated:
                # The clock of whoever had the name before us is ahead of ours: we are later all the same.
                later = outdated.later
            except Sited:
                # All of its brokers are known when one of them has let us in.
                sited = True
            except Refused:
                # One broker said no; another may say yes.
                left = tuple(one for one in left if one != client.address)
                if not left:
                    raise

    return Opening(begin, "holdfast.connect(...)")


def _checked_name(name: object) -> str:
    if not isinstance(name, str) or not name or len(name.encode("utf-8", "replace")) > NAME_BYTES_MAX:
        raise ConfigError(f"a client's name is a string of 1 to {NAME_BYTES_MAX} bytes, not {name!r}")
    if not name.isprintable():
        raise ConfigError(f"the client's name {name!r} has characters that cannot be printed: choose another one")
    return plain(name)


def _reconnect_s(reconnect: object) -> float:
    """For how long to try to come back; 0: not at all."""
    if isinstance(reconnect, bool):
        return math.inf if reconnect else 0.0
    return option_seconds("reconnect", reconnect)


def _check_trace(trace: object) -> None:
    if not (trace is None or callable(trace) or (isinstance(trace, str | Path) and _is_path(str(trace)))):
        raise wrong("connect", "trace", trace, "a directory, a file that ends in .jsonl, or a callable", ConfigError)


def _is_path(text: str) -> bool:
    """Whether a file system can have it as a path, at least by its characters."""
    try:
        return bool(text) and b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False
