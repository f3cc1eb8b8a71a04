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
    no message is lost, repeated or reordered. The session is lost only if no broker answers for `give_up_s`; every
    pending call then raises `SessionLost`, and subscriptions raise `Gap`.

    - `name` identifies the publisher: `(name, seq)` is a message's identity. The numbers of a name that was used
      before, at any broker, continue behind its last one. Without `name` the client gets a random one. A name
      belongs to one session at a time: an earlier client with the same name ends with `NameTaken`, and no message of
      either client is lost because of that.
    - `cluster` is the name of the cluster. Brokers of a cluster with another name refuse the client.
    - `trace` is a directory or a `.jsonl` file for this client's history, or a callable that gets each row of it; `run`
      names the run in it.
    - `timeout_s` bounds the first connection and the closing.
    - `publish` waits while more than `backlog_bytes_max` bytes of messages are not accepted by the broker yet.
    - `patient`: in a part of a parted network without a majority of the brokers, publications with `total` wait until
      the network is whole; with `patient=False` they are refused, definitely: `await receipt.accepted()` raises
      `Refused`.
    - `reliable` declares reliable topics, by one or more patterns: repositories store the messages that this client
      publishes there, as with `publish(..., durable=True)`, unless a publication says `durable=False`.
    - `reconnect`: after the loss of its session (its only broker was restarted, or the client was away for too long)
      the client begins another session under the same name. `True`: it tries for ever; a number: for so many seconds
      after each loss; with growing pauses. Each subscription raises one `Gap` with `goes_on`, where messages may be
      missing, and continues in the new session; the next iteration, and `publish`, wait for that session. Messages
      that had never left the client are published then. Messages that had left it and were not accepted may or may not
      have been published: `receipt.accepted()`, `flush` and `close` raise `SessionLost`, which is indefinite. Without
      `reconnect`, and when another client takes the name, the client ends with its session.
    - `on_connected(broker)` is called when the client has a session at that broker, for the first time or again,
      `on_disconnected(reason)` when it has no connection any more, and `on_gap(gap)` for every `Gap` that a
      subscription will raise. They may be coroutine functions. Their exceptions are logged.

    Raises `ConnectionFailed` when no broker answers at the addresses, `Refused` when the broker refuses the client.
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
