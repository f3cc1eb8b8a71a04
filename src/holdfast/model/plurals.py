"""Counts in sentences: `1 message`, `2 messages`, `20,000 messages`."""


def counted(count: int, one: str, several: str = "") -> str:
    """The count and its noun; `several` is the plural if it is not `one` with an s."""
    return f"{count:,} {one if count == 1 else several or one + 's'}"
