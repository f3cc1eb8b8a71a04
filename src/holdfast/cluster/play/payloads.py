"""The payloads of a play: each says whose it is and which one, and is as long as its line asks for."""


def payload_of(publisher: str, number: int, size_bytes: int) -> bytes:
    """`alice-3`, filled up with dots, or cut off, to that size if one is given."""
    text = f"{publisher}-{number}".encode()
    return text.ljust(size_bytes, b".")[:size_bytes] if size_bytes else text
