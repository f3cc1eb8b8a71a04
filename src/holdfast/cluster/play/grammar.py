"""The language of scripts: what each command looks like, and from its line to a value.

```
Broker lisbon                              # the root
Broker porto Parent lisbon
Tolerance 1
Publisher alice At lisbon
Subscriber bob At porto
Subscriber bob Subscribe bank/# Where amount > 100
Publisher alice Publish 20 OnTopic bank/lisbon Interval 50 Attributes amount={n}00
Crash porto
WaitQuiet
Expect bob Delivered 19
Expect Clean
```

Words may be written in any capitals; names are as they are written. `#` begins a comment, except where a pattern
stands. Topics have two spellings: `/IST/*` is `IST/#`, and `/IST/MEIC` is `IST/MEIC`.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.cluster.play import statements as said
from holdfast.cluster.play.statements import Action, ClientLine, Setup
from holdfast.cluster.play.words import Words
from holdfast.cluster.sections import listed, meant
from holdfast.model.batches import PAYLOAD_BYTES_MAX
from holdfast.model.errors import FilterError, LocalMisuse
from holdfast.model.filters import Value, parse_filter
from holdfast.model.guarantees import GUARANTEES
from holdfast.model.topics import check_pattern, check_unreserved
from holdfast.runtime.settings import TOLERANCE_MAX

COUNT_MAX = 1_000_000
SEED_MAX = (1 << 63) - 1
REPLICAS_MAX = 5
LINES_MAX = 10_000
ORDERINGS = {"no": "eventual", "none": "eventual", **{str(one): str(one) for one in GUARANTEES}}
POLICIES = ("flooding", "filtering")

Statement = Setup | ClientLine | Action
_RUN = re.compile(r"(?P<publisher>[A-Za-z0-9][A-Za-z0-9._-]{0,63})#(?P<first>\d{1,9})(?:\.\.(?P<last>\d{1,9}))?\Z")


class Form(Struct, frozen=True):
    """A command: how it is written, what it does, and from its words to its value."""

    usage: str
    meaning: str
    parse: Callable[[Words], Statement]


def parse_line(line: str, number: int = 1, source: str = "script") -> Statement | None:
    """The value of one line; `None` if it is empty or a comment alone."""
    words = Words(line, number, source)
    if not words:
        return None
    command = words.take("a command")
    form = FORMS.get(command.casefold())
    if form is None:
        raise words.error(
            f"there is no command {command!r}{meant(command.casefold(), FORMS)}; "
            f"expected {listed((one.usage.split()[0] for one in FORMS.values()), shown_max=99)}"
        )
    words.usage = form.usage
    found = form.parse(words)
    words.end()
    return found


def parse_script(text: str, source: str = "script") -> list[Statement]:
    """The values of all lines of a script."""
    lines = text.splitlines()
    if len(lines) > LINES_MAX:
        raise LocalMisuse(f"{source} has {len(lines)} lines; at most {LINES_MAX} are read.")
    found = (parse_line(line, number, source) for number, line in enumerate(lines, 1))
    return [statement for statement in found if statement is not None]


# -------------------------------------------------------------------------------------------------- parts of a line


def topic_of(words: Words, *, pattern: bool) -> str:
    """A topic or a pattern in either spelling."""
    what = "a topic or pattern" if pattern else "a topic"
    text = words.take(what).removeprefix("/")
    if text == "*" or text.endswith("/*"):
        text = f"{text[:-1]}#"
    if "*" in text.split("/"):
        raise words.error("'*' stands for all levels that remain, so it comes last; '+' stands for one level")
    try:
        return check_pattern(text) if pattern else check_unreserved(text)
    except LocalMisuse as error:
        raise words.error(str(error).rstrip(".")) from None


def options(words: Words, readers: Mapping[str, Callable[[], Any]]) -> dict[str, Any]:
    """The options that the line still has, in any order, each at most once; readers are by their casefolded words."""
    found: dict[str, Any] = {}
    while words:
        key = words.peek()
        if key not in readers:
            taken = words.take("an option")
            legal = [name for name in readers if name not in found]
            raise words.error(f"{taken!r} is no option here{meant(key, legal)}; expected {listed(legal)}")
        if key in found:
            raise words.error(f"{words.take('an option')!r} is said twice")
        words.take("an option")
        found[key] = readers[key]()
    return found


def _values(words: Words, what: str) -> tuple[str, ...]:
    values = tuple(part for part in words.take(what).split(",") if part)
    if not values:
        raise words.error(f"expected {what}, separated by commas")
    return values


def _attributes(words: Words) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for pair in _values(words, "attributes"):
        name, equals, text = pair.partition("=")
        if not name or not equals:
            raise words.error(f"{pair!r} is no attribute; expected name=value, several separated by commas")
        found[name] = _value(text)
    return found


def _value(text: str) -> Value:
    """A number, a boolean or a text; with `{n}` in it, a text that becomes one of them with each message's number."""
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text.strip("'\"")
    return value if isinstance(value, str | int | float | bool) else text


def numbered(attributes: Mapping[str, Value], number: int) -> dict[str, Value]:
    """The attributes of the message of that number, from 1: `{n}` stands for the number."""
    return {
        name: _value(value.replace("{n}", str(number))) if isinstance(value, str) and "{n}" in value else value
        for name, value in attributes.items()
    }


# ------------------------------------------------------------------------------------------- who takes part, and how


def _protocol(words: Words) -> Statement:
    return said.ProtocolName(words.number, words.text, words.name("a protocol").casefold())


def _tolerance(words: Words) -> Statement:
    return said.Tolerance(words.number, words.text, words.number_of("tolerance", 0, TOLERANCE_MAX))


def _routing_policy(words: Words) -> Statement:
    return said.RoutingPolicy(words.number, words.text, words.choice("routing policy", POLICIES))


def _ordering(words: Words) -> Statement:
    return said.Ordering(words.number, words.text, ORDERINGS[words.choice("ordering", ORDERINGS)])


def _logging_level(words: Words) -> Statement:
    level: Any = words.choice("level", ("light", "full"))
    return said.LoggingLevel(words.number, words.text, level)


def _seed(words: Words) -> Statement:
    return said.Seed(words.number, words.text, words.number_of("seed", 0, SEED_MAX))


def _machine(words: Words) -> Statement:
    return said.MachineLine(words.number, words.text, words.name("a machine"), words.take("its address, HOST:PORT"))


def _parent(words: Words) -> str | None:
    name = words.name("a parent")
    return None if name.casefold() == "none" else name


def _broker(words: Words) -> Statement:
    name = words.name("a broker")
    found = options(
        words,
        {
            "parent": lambda: _parent(words),
            "on": lambda: words.name("a machine"),
            "port": lambda: words.number_of("port", 1, 65535),
            "latency": lambda: words.duration_ms("latency"),
        },
    )
    place = (found.get("parent"), found.get("on", ""), found.get("port"), found.get("latency"))
    return said.BrokerLine(words.number, words.text, name, *place)


def _site(words: Words) -> Statement:
    name = words.name("a site")
    found = options(
        words,
        {
            "parent": lambda: _parent(words),
            "on": lambda: _values(words, "machines"),
            "replicas": lambda: words.number_of("number of replicas", 1, REPLICAS_MAX),
        },
    )
    place = (found.get("parent"), found.get("on", ()), found.get("replicas", 3))
    return said.SiteLine(words.number, words.text, name, *place)


def _client(words: Words, *, publishes: bool, subscribes: bool) -> Statement:
    """A client that takes part, or what one of them does."""
    what = {"at": "At", **({"publish": "Publish"} if publishes else {})}
    what |= {"subscribe": "Subscribe", "unsubscribe": "Unsubscribe"} if subscribes else {}
    name = words.name("a client")
    verb = words.choice("word behind the client's name", what)
    if verb == "at":
        at = words.name("a broker or site")
        found = options(words, {"on": lambda: words.name("a machine")})
        return ClientLine(words.number, words.text, name, at, found.get("on", ""), publishes, subscribes)
    return {"publish": _publish, "subscribe": _subscribe, "unsubscribe": _unsubscribe}[verb](words, name)


def _publisher(words: Words) -> Statement:
    return _client(words, publishes=True, subscribes=False)


def _subscriber(words: Words) -> Statement:
    return _client(words, publishes=False, subscribes=True)


def _both(words: Words) -> Statement:
    return _client(words, publishes=True, subscribes=True)


# ---------------------------------------------------------------------------------------------------------- actions


def _publish(words: Words, client: str) -> Statement:
    count = words.number_of("number of messages", 1, COUNT_MAX)
    words.choice("word behind the number", ("ontopic",))
    topic = topic_of(words, pattern=False)
    found = options(
        words,
        {
            "interval": lambda: words.duration_ms("interval"),
            "guarantee": lambda: ORDERINGS[words.choice("guarantee", ORDERINGS)],
            "keys": lambda: _values(words, "keys"),
            "attributes": lambda: _attributes(words),
            "size": lambda: words.number_of("size in bytes", 0, PAYLOAD_BYTES_MAX),
        },
    )
    return said.Publish(
        words.number,
        words.text,
        client,
        count,
        topic,
        found.get("interval", 0.0),
        found.get("guarantee", ""),
        found.get("keys", ()),
        found.get("attributes", {}),
        found.get("size", 0),
    )


def _interest(words: Words) -> tuple[str, str, bool]:
    pattern = topic_of(words, pattern=True)
    waits = True
    if words.peek() == "nowait":
        words.take("NoWait")
        waits = False
    where = ""
    if words:
        words.choice("word behind the pattern", ("where", "nowait") if waits else ("where",))
        where = words.rest("a filter")
        try:
            parse_filter(where)
        except FilterError as error:
            raise words.error(f"the filter cannot be read: {error.sentence.rstrip('.')}") from None
    return pattern, where, waits


def _subscribe(words: Words, client: str) -> Statement:
    return said.Subscribe(words.number, words.text, client, *_interest(words))


def _unsubscribe(words: Words, client: str) -> Statement:
    pattern, where, waits = _interest(words)
    if not waits:
        raise words.error("NoWait is for Subscribe; an Unsubscribe is waited for")
    return said.Unsubscribe(words.number, words.text, client, pattern, where)


def _of_node(kind: type[said.Crash | said.Freeze | said.Unfreeze | said.Restart]) -> Callable[[Words], Statement]:
    def parse(words: Words) -> Statement:
        return kind(words.number, words.text, words.name("a broker or client"))

    return parse


def _cut(words: Words) -> Statement:
    return said.Cut(words.number, words.text, words.name("a broker"), words.name("another broker"))


def _part(words: Words) -> Statement:
    side = [words.name("a broker")]
    while words:
        side.append(words.name("a broker"))
    return said.Part(words.number, words.text, tuple(side))


def _heal(words: Words) -> Statement:
    return said.Heal(words.number, words.text)


def _wait(words: Words) -> Statement:
    return said.Wait(words.number, words.text, words.duration_ms("time"))


def _wait_quiet(words: Words) -> Statement:
    return said.WaitQuiet(words.number, words.text, words.duration_ms("limit") if words else None)


def _status(words: Words) -> Statement:
    return said.Status(words.number, words.text)


# ----------------------------------------------------------------------------------------------------- expectations

AUDITS = ("clean", "broken", "noloss", "noduplicates")
STATES = ("ready", "root", "down", "frozen")


def _expect(words: Words) -> Statement:
    limit = words.option_at_end("within")
    within_ms = words.as_ms(limit.text, "limit") if limit is not None else 0.0
    key = words.peek()
    if key in AUDITS:
        mark: Any = words.choice("expectation", AUDITS)
        return said.ExpectAudit(words.number, words.text, within_ms, mark)
    if key == "delivered":
        words.take("Delivered")
        return _count(words, within_ms, "")
    if key == "order":
        words.take("Order")
        order: Any = words.choice("order", ("fifo", "causal", "total"))
        return said.ExpectAudit(words.number, words.text, within_ms, order)
    if key in ("subscriber", "client", "broker"):
        words.take("a client or broker")
    if not key:
        raise words.error("expected what is expected, but the line ends there")
    name = words.name("a client or broker")
    what = words.choice("expectation", ("delivered", "order", *STATES))
    if what in STATES:
        state: Any = what
        return said.ExpectNode(words.number, words.text, within_ms, name, state)
    return _order(words, within_ms, name) if what == "order" else _count(words, within_ms, name)


def _count(words: Words, within_ms: float, client: str) -> Statement:
    comparison: Any = "exactly"
    if words.peek() in ("atleast", "atmost"):
        comparison = {"atleast": "at least", "atmost": "at most"}[words.take("a comparison").casefold()]
    count = words.number_of("number of messages", 0, COUNT_MAX)
    found = options(
        words, {"ontopic": lambda: topic_of(words, pattern=True), "from": lambda: words.name("a publisher")}
    )
    what = (found.get("ontopic", ""), found.get("from", ""))
    return said.ExpectDelivered(words.number, words.text, within_ms, client, comparison, count, *what)


def _order(words: Words, within_ms: float, client: str) -> Statement:
    runs: list[said.Run] = []
    while words or not runs:
        taken = words.take("messages, as in alice#1 bob#1..3")
        found = _RUN.match(taken)
        first = int(found["first"]) if found else 0
        last = int(found["last"] or first) if found else 0
        if found is None or not 1 <= first <= last <= first + COUNT_MAX:
            raise words.error(f"{taken!r} are no messages; expected PUBLISHER#NUMBER or PUBLISHER#FIRST..LAST, from 1")
        runs.append(said.Run(found["publisher"], first, last))
    return said.ExpectOrder(words.number, words.text, within_ms, client, tuple(runs))


FORMS: dict[str, Form] = {
    form.usage.split()[0].casefold(): form
    for form in (
        Form("Protocol NAME", "the protocol of the brokers; ginger without it", _protocol),
        Form("Tolerance 0|1|2", "adjacent brokers that may be lost at once; 0 without it", _tolerance),
        Form("RoutingPolicy flooding|filtering", "how sites route publications", _routing_policy),
        Form(
            "Ordering none|fifo|causal|total",
            "guarantee of publications that name none; without it causal, or the strongest below that the protocol has",
            _ordering,
        ),
        Form("LoggingLevel light|full", "whether the event log has what brokers report, too", _logging_level),
        Form("Seed NUMBER", "the seed of a simulation", _seed),
        Form("Machine NAME HOST:PORT", "a machine, by the address of its holdfast agent", _machine),
        Form("Broker NAME [Parent NAME] [On MACHINE] [Port N] [Latency MS]", "a broker", _broker),
        Form("Site NAME [Parent NAME] [Replicas 1|3|5] [On MACHINE,...]", "a site of several brokers", _site),
        Form(
            "Publisher NAME At BROKER [On MACHINE]  or  Publisher NAME Publish COUNT OnTopic TOPIC [Interval MS] "
            "[Guarantee G] [Keys K,K] [Attributes name=value,...] [Size BYTES]",
            "a publisher, or what it publishes in the background",
            _publisher,
        ),
        Form(
            "Subscriber NAME At BROKER [On MACHINE]  or  Subscriber NAME Subscribe PATTERN [NoWait] [Where FILTER]  "
            "or  Subscriber NAME Unsubscribe PATTERN [Where FILTER]",
            "a subscriber, or what it subscribes to",
            _subscriber,
        ),
        Form(
            "Client NAME At BROKER [On MACHINE]  or  Client NAME Publish ...  or  Client NAME Subscribe ...",
            "a client that publishes and subscribes",
            _both,
        ),
        Form("Crash NAME", "kill a broker or a client", _of_node(said.Crash)),
        Form("Freeze NAME", "stop a broker or a client in its tracks", _of_node(said.Freeze)),
        Form("Unfreeze NAME", "let it go on", _of_node(said.Unfreeze)),
        Form("Restart NAME", "start a crashed broker again", _of_node(said.Restart)),
        Form("Cut BROKER BROKER", "let nothing pass between two brokers", _cut),
        Form("Part BROKER [BROKER ...]", "let nothing pass between these brokers and all others", _part),
        Form("Heal", "take every cut back", _heal),
        Form("Wait MS", "pause", _wait),
        Form("WaitQuiet [MS]", "pause until everything has arrived, at most so long", _wait_quiet),
        Form("Status", "show the tree", _status),
        Form(
            "Expect [NAME] Delivered [AtLeast|AtMost] COUNT [OnTopic PATTERN] [From PUBLISHER]  or  "
            "Expect NAME Order PUBLISHER#FIRST..LAST ...  or  Expect Order fifo|causal|total  or  "
            "Expect Clean|NoLoss|NoDuplicates|Broken  or  Expect BROKER Ready|Root|Down|Frozen; each with [Within MS]",
            "fail, with exit code 1 at the end, unless it is so",
            _expect,
        ),
    )
}
