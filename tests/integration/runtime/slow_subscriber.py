"""A subscriber as a process of its own, which may be stopped, or reads two messages a second until it is told to hurry.

It writes a line for each message and gap: `seq 7`, `gap 12`, `over REASON`; and `drained` when nothing more comes.
"""

import asyncio
import sys

import holdfast
from holdfast.protocols.config import LinkConfig

PAUSE_S = 0.5


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


async def read(address: str, slow: str, slow_bytes: int, link: LinkConfig) -> None:
    async with holdfast.connect(address, name="slow", link=link) as client:
        options = {} if slow == "block" else {"slow_bytes": slow_bytes}
        inbox = await client.subscribe("t", slow=slow, **options, **({"slow_s": 1.0} if slow == "disconnect" else {}))
        say("begun")
        hurried = asyncio.ensure_future(asyncio.to_thread(sys.stdin.readline))
        while True:
            if not hurried.done():
                await asyncio.wait({hurried}, timeout=PAUSE_S)
            try:
                message = await inbox.get(0.5)
            except TimeoutError:
                say("drained")
                continue
            except holdfast.Gap as gap:
                if not gap.goes_on:
                    say(f"over {gap}")
                    return
                say(f"gap {gap.dropped}")
                continue
            say(f"seq {message.seq}")
            if message.payload == b"end":
                return


if __name__ == "__main__":
    holdfast.run(read(sys.argv[1], sys.argv[2], int(sys.argv[3]), LinkConfig(window_bytes=int(sys.argv[4]))))
