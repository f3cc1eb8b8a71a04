"""`holdfast pipeline …`: the jobs on Spark. Each imports Spark when it is called: the others start without it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import SIGINT, default_int_handler, signal
from threading import Event
from types import FrameType
from typing import Annotated
from uuid import uuid4

import typer

from holdfast.cli.options import DEFAULT_ADDRESS, Address, AsJson, ClusterName, help_of
from holdfast.cli.output import note, print_json, print_line
from holdfast.cluster.config import CLUSTER_NAME
from holdfast.storage.recordings import Recording

LOCAL_MASTER = "local[*]"

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
    recording: Annotated[Path, typer.Argument(help="What `holdfast sub --record` writes.")],
    target: Annotated[Path, typer.Argument(metavar="ARCHIVE", help="A directory of Parquet files; made if needed.")],
    topic: Annotated[str, typer.Option("--topic", "-t", help="Only topics that match this pattern.")] = "",
    by: Annotated[str, typer.Option("--by", help="Divide by these columns: day, topic, publisher, guarantee.")] = "day",
    once: Annotated[bool, typer.Option("--once", help="End when what is there now is copied.")] = False,
    interval_s: Annotated[float, typer.Option("--interval", min=0.0, help="Seconds from one copy to the next.")] = 10.0,
    messages_max: Annotated[int, typer.Option("--max", min=1, help="At most so many messages at a time.")] = 500_000,
    master: Master = LOCAL_MASTER,
    as_json: AsJson = False,
) -> None:
    """Copy a recording into partitioned Parquet, each message once, until Ctrl-C or, with --once, to its end.

    It goes on where it was when it ended, however it ended. The archive remembers what it is a copy of.

    \b
    Examples
      holdfast sub 'bank/#' --record recordings/bank &
      holdfast pipeline archive recordings/bank archive/bank
      holdfast pipeline archive recordings/bank archive/bank --once --json
    """
    from holdfast.pipeline import archive as jobs  # noqa: PLC0415
    from holdfast.pipeline.errors import spoken_plainly  # noqa: PLC0415
    from holdfast.pipeline.session import spark_session  # noqa: PLC0415

    Recording(recording)  # If it is none, that is said before Spark is started.
    columns = tuple(name.strip() for name in by.split(",") if name.strip())
    wanted = jobs.Description(str(recording.absolute()), topic, columns)
    reached = jobs.Archived()

    def report(now: jobs.Archived) -> None:
        nonlocal reached
        reached = now
        note(f"archived {now.rows} messages, up to position {now.position}")

    with spoken_plainly(), spark_session(master, quick=once) as spark:
        query = jobs.start_archive(
            spark, wanted, target.absolute(), once=once, interval_s=interval_s, messages_max=messages_max
        )
        with _interrupts_noted() as is_interrupted:
            jobs.follow(query, report, is_interrupted)
    if as_json:
        print_json({"archive": str(target), "rows": reached.rows, "position": reached.position})
    else:
        print_line(f"{target}: {reached.rows} messages more")


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
    address: Address = DEFAULT_ADDRESS,
    cluster: ClusterName = CLUSTER_NAME,
    master: Master = LOCAL_MASTER,
    as_json: AsJson = False,
) -> None:
    """Publish a range of an archive again: same topics, payloads, guarantees, keys, attributes and order.

    The publisher is the replay, not who published before. A replay that was interrupted goes on with --id: what the
    broker has taken already is left out.

    \b
    Examples
      holdfast pipeline replay archive/bank --from 1000 --to 2000
      holdfast pipeline replay archive/bank --topic 'bank/lisbon/#' --prefix replay/ --json
    """
    from holdfast.pipeline import archive as jobs  # noqa: PLC0415
    from holdfast.pipeline.errors import spoken_plainly  # noqa: PLC0415
    from holdfast.pipeline.session import spark_session  # noqa: PLC0415

    given = write_id or uuid4().hex[:16]
    note(f"replay {given}: if it is interrupted, repeat the command with --id {given}")
    with spoken_plainly(), spark_session(master, quick=True) as spark:
        frame = jobs.read_archive(spark, source.absolute(), start, end, topic)
        rows = jobs.replay(frame, address, given, prefix=prefix, partitions=partitions, cluster=cluster)
    if as_json:
        print_json({"archive": str(source), "id": given, "rows": rows})
    else:
        print_line(f"{source}: {rows} messages published, as replay-{given}")


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


for _command in (archive, replay):
    app.command(help=help_of(_command))(_command)
