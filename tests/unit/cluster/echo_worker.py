"""A worker for the tests: does what its settings say."""

import sys

from msgspec import Struct

from holdfast.cluster.workers import Orders, say, settings_of_this_process, work
from holdfast.model.errors import LocalMisuse


class Settings(Struct):
    then: str


async def main() -> None:
    settings = settings_of_this_process(Settings)
    orders = Orders()
    orders.listen()
    say("ready")
    if settings.then == "exit":
        sys.stderr.write("it was too much\n")
        sys.exit(3)
    if settings.then == "fail":
        raise LocalMisuse("I was told to fail.")
    word = await orders.next()
    say("noise")
    say("heard", word=word)
    await orders.wait_for("stop")
    say("stopped")


if __name__ == "__main__":
    work(main())
