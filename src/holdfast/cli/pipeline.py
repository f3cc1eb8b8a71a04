"""`holdfast pipeline …`: the jobs on Spark. Each imports Spark when it is called: the others start without it."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from signal import SIGINT, default_int_handler, signal
from threading import Event
from types import FrameType
from typing import Annotated, Any
from uuid import uuid4

import typer

from holdfast.cli.options import (
    DEFAULT_ADDRESS,
    STATE_DIRECTORY,
    Address,
    AsJson,
    ClusterName,
    StateDirectory,
    help_of,
)
from holdfast.cli.output import console, note, print_json, print_line, table
from holdfast.cluster.config import CLUSTER_NAME
from holdfast.cluster.state import running_state
from holdfast.model.errors import ConfigError
from holdfast.model.plurals import counted
from holdfast.services.bank import ACCOUNTS, account_numbers
from holdfast.storage.recordings import Recording

LOCAL_MASTER = "local[*]"
RELIABLE = "reliable:"
MESSAGES = "messages"
"""The one lane of a recording."""
LOOK_S = 5.0
"""How long repositories are looked for before Spark is started."""
STATE_ROWS_MAX = 100
"""How many accounts are named that are not as they should be."""

Master = Annotated[
    str, typer.Option("--master", help="Where Spark runs: local[*] is this machine, spark://host:7077 a cluster.")
]

app = typer.Typer(
    name="pipeline",
    help="Jobs on Spark: copy, replay and examine what was published.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)


def archive(
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="What `holdfast sub --record` writes, or reliable:TOPIC.")
    ],
    target: Annotated[Path, typer.Argument(metavar="ARCHIVE", help="A directory of Parquet files; made if needed.")],
    topic: Annotated[str, typer.Option("--topic", "-t", help="Only topics that match this pattern.")] = "",
    by: Annotated[str, typer.Option("--by", help="Divide by these columns: day, topic, publisher, guarantee.")] = "day",
    once: Annotated[bool, typer.Option("--once", help="End when what is there now is copied.")] = False,
    interval_s: Annotated[float, typer.Option("--interval", min=0.0, help="Seconds from one copy to the next.")] = 10.0,
    messages_max: Annotated[int, typer.Option("--max", min=1, help="At most so many messages at a time.")] = 500_000,
    repositories: Annotated[
        str, typer.Option("--repositories", help="Health endpoints, with commas; else those of the running cluster.")
    ] = "",
    subscriber: Annotated[
        str,
        typer.Option("--subscriber", help="Name of the reader, if the owner of the reliable topic registers readers."),
    ] = "spark",
    gaps: Annotated[
        str, typer.Option("--gaps", help="At messages that were given up: fail, or note them as a row and go on.")
    ] = "fail",
    state: StateDirectory = STATE_DIRECTORY,
    master: Master = LOCAL_MASTER,
    as_json: AsJson = False,
) -> None:
    """Copy a recording or a reliable topic into partitioned Parquet, each message once, until Ctrl-C or --once.

    It goes on where it was when it ended, however it ended. The archive remembers what it is a copy of. A reliable
    topic is read from any of its repositories that is there: when one dies, from the next, without gap or repeat.

    \b
    Examples
      holdfast sub 'bank/#' --record recordings/bank &
      holdfast pipeline archive recordings/bank archive/bank
      holdfast pipeline archive recordings/bank archive/bank --once --json
      holdfast pipeline archive 'reliable:bank/#' archive/orders --repositories 127.0.0.1:7503,127.0.0.1:7504
    """
    from holdfast.pipeline import archive as jobs  # noqa: PLC0415
    from holdfast.pipeline.errors import spoken_plainly  # noqa: PLC0415
    from holdfast.pipeline.session import spark_session  # noqa: PLC0415
    from holdfast.pipeline.source import open_log  # noqa: PLC0415

    options: dict[str, str] = {}
    if source.startswith(RELIABLE):
        options = {"subscriber": subscriber, "gaps": gaps}
        options["repositories"] = repositories or _repositories(source.removeprefix(RELIABLE), state)
        # If nobody keeps it, that is said before Spark is started.
        open_log({"path": source, **options, "patience": str(LOOK_S)}).first()
    else:
        source = str(Recording(Path(source)).path.absolute())
    columns = tuple(name.strip() for name in by.split(",") if name.strip())
    wanted = jobs.Description(source, topic, columns)
    reached = jobs.Archived()

    def report(now: jobs.Archived) -> None:
        nonlocal reached
        reached = now
        note(f"archived {counted(now.rows, 'message')}" + _up_to(now.positions))

    with spoken_plainly(), spark_session(master, quick=once) as spark:
        query = jobs.start_archive(
            spark,
            wanted,
            target.absolute(),
            once=once,
            interval_s=interval_s,
            messages_max=messages_max,
            options=options,
        )
        with _interrupts_noted() as is_interrupted:
            jobs.follow(query, report, is_interrupted)
    if as_json:
        where = {"positions": reached.positions} if options else {"position": reached.positions.get(MESSAGES, 0)}
        print_json({"archive": str(target), "rows": reached.rows, **where})
    else:
        print_line(f"{target}: {counted(reached.rows, 'message')} more")


def _up_to(positions: Mapping[str, int]) -> str:
    """How far that is, if there is one number which says it."""
    return f", up to position {positions[MESSAGES]}" if MESSAGES in positions else ""


def _repositories(stream: str, state: Path) -> str:
    """The health endpoints of those that keep a reliable topic in the cluster that runs here."""
    cluster = running_state(state).cluster
    kept = {one.name: one.streams for one in cluster.repositories}
    found = [one for one in cluster.repositories if stream in one.streams]
    if not found:
        listed = "; ".join(f"{name} keeps {', '.join(streams)}" for name, streams in kept.items())
        raise ConfigError(
            f"no repository of cluster {cluster.name} keeps {stream!r}: {listed or 'it has none'}. "
            "Name the topic as it is declared, and a part of it with --topic."
        )
    return ",".join(f"{cluster.broker(one.broker).host}:{one.health_port}" for one in found)


def replay(
    source: Annotated[Path, typer.Argument(metavar="ARCHIVE", help="What `holdfast pipeline archive` wrote.")],
    start: Annotated[int | None, typer.Option("--from", min=0, help="The first position; else the beginning.")] = None,
    end: Annotated[int | None, typer.Option("--to", min=0, help="The position behind the last; else the end.")] = None,
    topic: Annotated[str, typer.Option("--topic", "-t", help="Only topics that match this pattern.")] = "",
    prefix: Annotated[str, typer.Option("--prefix", help="Publish on this + the topic, such as replay/.")] = "",
    write_id: Annotated[
        str | None, typer.Option("--id", help="Go on with the replay of this id, publishing nothing twice.")
    ] = None,
    partitions: Annotated[
        int, typer.Option("--partitions", min=1, help="Publish in parallel, keeping each publisher's order only.")
    ] = 1,
    durable: Annotated[
        bool, typer.Option("--durable", help="Onto reliable topics: it ends when repositories have stored all of it.")
    ] = False,
    address: Address = DEFAULT_ADDRESS,
    cluster: ClusterName = CLUSTER_NAME,
    master: Master = LOCAL_MASTER,
    as_json: AsJson = False,
) -> None:
    """Publish a range of an archive again: same topics, payloads, guarantees, keys, attributes and order.

    The publisher is the replay, not who published before. A replay that was interrupted goes on with --id: what the
    broker has taken already is left out. Of a reliable topic each publisher's order is kept, and between publishers
    that of the times at which their messages were stored; its archive has no ranges of positions. One that is --durable
    and was interrupted is not gone on with: look what is stored, and replay the rest under another id.

    \b
    Examples
      holdfast pipeline replay archive/bank --from 1000 --to 2000
      holdfast pipeline replay archive/bank --topic 'bank/lisbon/#' --prefix replay/ --json
      holdfast pipeline replay archive/orders --durable --prefix bank/again/
    """
    from holdfast.pipeline import archive as jobs  # noqa: PLC0415
    from holdfast.pipeline.errors import spoken_plainly  # noqa: PLC0415
    from holdfast.pipeline.session import spark_session  # noqa: PLC0415

    if not source.exists():
        raise ConfigError(f"there is no archive at {source}; `holdfast pipeline archive` writes one.")
    described = jobs.description_of(source)
    given = write_id or uuid4().hex[:16]
    note(f"replay {given}: if it is interrupted, repeat the command with --id {given}")
    with spoken_plainly(), spark_session(master, quick=True) as spark:
        frame = jobs.read_archive(spark, source.absolute(), start, end, topic)
        rows = jobs.replay(
            frame,
            address,
            given,
            prefix=prefix,
            partitions=partitions,
            cluster=cluster,
            by_publisher=described is not None and described.is_reliable,
            durable=durable,
        )
    if as_json:
        print_json({"archive": str(source), "id": given, "rows": rows})
    else:
        print_line(f"{source}: {counted(rows, 'message')} published, as replay-{given}")


def metrics(
    trace: Annotated[str, typer.Argument(help="A trace: a .jsonl or .parquet file, or a directory of them.")],
    every_s: Annotated[float, typer.Option("--every", min=0.001, help="Seconds in an interval of throughput.")] = 1.0,
    rows_max: Annotated[int, typer.Option("--rows", min=1, help="Print at most so many rows of a table.")] = 40,
    master: Master = LOCAL_MASTER,
    as_json: AsJson = False,
) -> None:
    """Figures of a run: latencies by guarantee, topic, fault window and hops; throughput, repairs, headers, brokers.

    A delivery is in the phase `repair` if a repair was under way between its publication and its arrival. Hops are the
    brokers on the way, in the tree as it was then; where it changed meanwhile they are not known. What a trace does not
    tell is left out.

    \b
    Examples
      holdfast pipeline metrics report/trace
      holdfast pipeline metrics report/trace --every 0.25 --json | jq .latency_by_guarantee
    """
    from holdfast.pipeline import metrics as figures  # noqa: PLC0415
    from holdfast.pipeline.errors import spoken_plainly  # noqa: PLC0415
    from holdfast.pipeline.session import spark_session  # noqa: PLC0415
    from holdfast.pipeline.trace_frames import read_events, refuse_malformed  # noqa: PLC0415

    if "://" not in trace and not Path(trace).exists():
        raise ConfigError(f"there is no trace at {trace}; name a file or a directory of one.")
    with spoken_plainly(), spark_session(master, quick=True) as spark:
        events = read_events(spark, trace)
        refuse_malformed(events)
        with figures.all_metrics(events, every_s) as frames:
            tables = {name: figures.rows_of(frame, rows_max) for name, frame in frames.items()}
    if as_json:
        print_json(tables)
    else:
        for name, rows in tables.items():
            _print_table(name.replace("_", " "), rows)


def _print_table(title: str, rows: list[dict[str, Any]]) -> None:
    if not rows:
        print_line(f"{title}: none")
        return
    # Durations are for people; moments in nanoseconds are for those who ask for JSON.
    lasting = any(name.endswith("_ms") for name in rows[0])
    columns = [name for name in rows[0] if not (lasting and name.endswith("_ns"))]
    shown = table(title, *columns)
    for row in rows:
        shown.add_row(*["" if row[name] is None else str(row[name]) for name in columns])
    console.print(shown)


def state(
    recordings: Annotated[
        Path, typer.Argument(help="A directory of recordings, each named after its replica, such as report/recordings.")
    ],
    accounts: Annotated[int, typer.Option("--accounts", min=1, help="How many accounts each bank has.")] = ACCOUNTS,
    master: Master = LOCAL_MASTER,
    as_json: AsJson = False,
) -> None:
    """The bank's balances at every replica, from the operations that were delivered to it: do the replicas agree?

    Exit code 1 if an account has different balances at two replicas of its bank, or a balance is below zero.

    \b
    Examples
      holdfast pipeline state report/recordings
      holdfast pipeline state report/recordings --json | jq .diverged
    """
    from holdfast.pipeline import state as jobs  # noqa: PLC0415
    from holdfast.pipeline.errors import spoken_plainly  # noqa: PLC0415
    from holdfast.pipeline.session import spark_session  # noqa: PLC0415

    jobs.find_recordings(recordings)  # If there are none, that is said before Spark is started.
    with spoken_plainly(), spark_session(master, quick=True) as spark:
        delivered = jobs.read_replicas(spark, recordings)
        found = jobs.balances(delivered, account_numbers(accounts)).persist()
        tables = {
            "replicas": [row.asDict() for row in jobs.replicas(found).collect()],
            "diverged": [row.asDict() for row in jobs.divergences(found).limit(STATE_ROWS_MAX).collect()],
            "negative": [row.asDict() for row in jobs.negatives(found).limit(STATE_ROWS_MAX).collect()],
        }
    ok = not tables["diverged"] and not tables["negative"]
    if as_json:
        print_json({"ok": ok, **tables})
    else:
        for name, rows in tables.items():
            _print_table(name, rows)
    if not ok:
        raise typer.Exit(1)


@contextmanager
def _interrupts_noted() -> Iterator[Callable[[], bool]]:
    """A Ctrl-C that is remembered instead of raised: in the middle of a word to Java it would leave both confused.

    The second one is raised.
    """
    interrupted = Event()

    def note_it(number: int, frame: FrameType | None) -> None:
        if interrupted.is_set():
            default_int_handler(number, frame)
        interrupted.set()

    before = signal(SIGINT, note_it)
    try:
        yield interrupted.is_set
    finally:
        signal(SIGINT, before)


for _command in (archive, replay, metrics, state):
    app.command(help=help_of(_command))(_command)
