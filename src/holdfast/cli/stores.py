"""`holdfast store …`: looking at what a repository keeps, and putting it right."""

from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from holdfast.cli.options import AsJson, help_of
from holdfast.cli.output import console, note, print_json, print_line, table
from holdfast.model.errors import ConfigError
from holdfast.model.plurals import counted
from holdfast.storage.stores import Damage, Store, StoreAway, StoreFailed, open_store
from holdfast.storage.stores.mending import mend_from

DAMAGES_SHOWN_MAX = 50

Url = Annotated[
    str,
    typer.Argument(
        metavar="URL", help="sqlite:FILE, segments:DIRECTORY, or postgresql://HOST/DATABASE with #SCHEMA behind it."
    ),
]

app = typer.Typer(
    name="store",
    help="What a repository keeps: is it whole, how much is it, and how to put it right.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)


def verify(url: Url, as_json: AsJson = False) -> None:
    """Read everything in a store and compare it with its checksums. Exit code 1 if anything is damaged.

    What is damaged is never handed out: a repository with damage goes on and leaves it out. `holdfast store mend` puts
    it right from another repository of the bundle. Nothing is changed here, and a repository may be running meanwhile.

    \b
    Examples
      holdfast store verify sqlite:data/orders.db
      holdfast store verify segments:data/orders --json | jq .damages
    """
    damages = _looked_at(url)
    if as_json:
        print_json({"ok": not damages, "damages": [_plain(damage) for damage in damages]})
    else:
        _print_damages(damages)
        print_line("everything is as it was stored" if not damages else f"{len(damages):,} found damaged")
    if damages:
        raise typer.Exit(1)


def _looked_at(url: str) -> list[Damage]:
    try:
        with _opened(url, write=False) as store:
            return store.verify()
    except StoreAway:
        raise
    except StoreFailed as error:
        # What cannot even be opened is damaged, and that is what was asked.
        return [Damage(stream="", first=0, last=0, what=str(error))]


def info(url: Url, as_json: AsJson = False) -> None:
    """Say what a store has: streams, the sequence numbers that are kept, messages, bytes.

    Exit code 1 if it cannot be read.

    \b
    Examples
      holdfast store info sqlite:data/orders.db
      holdfast store info 'postgresql://db.example/holdfast#lisbon' --json
    """
    try:
        with _opened(url, write=False) as store:
            streams = {name: store.info(name) for name in store.streams()}
            pairs = sum(1 for _ in store.items())
    except StoreFailed as error:
        note(str(error))
        raise typer.Exit(1) from None
    if as_json:
        print_json({"streams": {name: msgspec.to_builtins(one) for name, one in streams.items()}, "pairs": pairs})
        return
    rows = table("Streams", "stream", "from", "to", "messages", "bytes")
    for name, one in streams.items():
        rows.add_row(name, f"{one.kept:,}", f"{one.next - 1:,}", f"{one.messages:,}", f"{one.bytes:,}")
    console.print(rows)
    print_line(f"{counted(pairs, 'pair')} of metadata")


def compact(url: Url) -> None:
    """Give back the space of what was forgotten. The repository must not be running.

    Messages go when their retention is over; the space that they took is used again for new ones. This gives it back
    to the disk. It needs, for a while, as much space again as is kept.

    \b
    Examples
      holdfast store compact sqlite:data/orders.db
    """
    _look_for(url)
    with _opened(url) as store:
        store.compact()


def mend(
    url: Url,
    sibling: Annotated[
        str, typer.Option("--from", metavar="URL", help="The store of another repository of the bundle, or a copy.")
    ],
    as_json: AsJson = False,
) -> None:
    """Put a damaged store right with the help of another one. Exit code 1 if something is left.

    Indexes and whatever is written twice are put right without help; messages are taken from the other store, by their
    publishers and numbers, since every repository has an order of its own. The repository must not be running; the
    other one may.

    \b
    Examples
      holdfast store mend sqlite:data/orders.db --from segments:/backup/orders
      holdfast store mend segments:data/orders --from postgresql://db.example/holdfast
    """
    if url == sibling:
        raise ConfigError("a store cannot be mended from itself; name the store of another repository with --from.")
    _look_for(url)
    with _opened(url) as store, _opened(sibling, write=False) as other:
        mended = mend_from(store, other)
    if as_json:
        print_json(
            {
                "ok": not mended.left,
                "found": [_plain(damage) for damage in mended.found],
                "left": [_plain(damage) for damage in mended.left],
                "messages": mended.messages,
            }
        )
    elif not mended.found:
        print_line("nothing was damaged")
    else:
        print_line(f"{len(mended.found):,} found damaged, {counted(mended.messages, 'message')} brought back")
        _print_damages(mended.left)
    if mended.left:
        note("what is left is not in that store, or nobody can tell where it belongs: try another sibling")
        raise typer.Exit(1)


def _look_for(url: str) -> None:
    """Raise `ConfigError` if there is no such store: opening it for writing would make one."""
    scheme, _, place = url.partition(":")
    if scheme in ("sqlite", "segments") and place and not Path(place).exists():
        raise ConfigError(f"there is no store at {place}; name one that a repository has written.")


def _opened(url: str, write: bool = True) -> Store:
    if url.startswith("memory:"):
        raise ConfigError("a store in memory ends with the process that has it; name one that is on disk.")
    return open_store(url, write)


def _plain(damage: Damage) -> dict[str, Any]:
    return dict(msgspec.to_builtins(damage))


def _print_damages(damages: list[Damage]) -> None:
    if not damages:
        return
    rows = table("Damaged", "stream", "messages", "of", "what")
    for damage in damages[:DAMAGES_SHOWN_MAX]:
        numbers = f"{damage.first:,}..{damage.last:,}" if damage.first else "?"
        rows.add_row(damage.stream or "-", numbers, damage.publisher or "?", damage.what)
    console.print(rows)
    if len(damages) > DAMAGES_SHOWN_MAX:
        print_line(f"... and {len(damages) - DAMAGES_SHOWN_MAX:,} more; --json lists all")


for command in (verify, info, compact, mend):
    app.command(help=help_of(command))(command)
