"""Who answers at an address where no broker is: named as soon as that is known, not when patience ends."""

import asyncio

from holdfast.client.addresses import Address

SILENCE_S = 1.0
"""A broker says its name within milliseconds. Of whoever has not after this time it is asked whether it is one."""
ANSWER_S = 1.0
QUESTION = b"HOLDFAST ?\r\n\r\n"
"""A line that no protocol knows: servers that wait for the end of a line, such as those of HTTP, answer with an error,
and brokers close the connection."""
ANSWER_BYTES_MAX = 256


async def first_words(address: Address) -> str:
    """What a server of text says to a line that it does not know; empty if it says nothing like that."""
    try:
        async with asyncio.timeout(ANSWER_S):
            reader, writer = await asyncio.open_connection(*address)
            try:
                writer.write(QUESTION)
                answer = await reader.read(ANSWER_BYTES_MAX)
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return ""
    line = answer.split(b"\n")[0].strip()
    return f"it is no broker: it says {line.decode()!r}" if line.isascii() and line.decode().isprintable() else ""
