"""What frames between brokers weigh in an experiment, and what of that is metadata.

Either everything weighs what it does on our wire, or a message weighs its payload and what the thesis of LoCaMu counts
(003, section 4.3), and nothing else weighs anything, as in its evaluation.
"""

from collections import deque

from holdfast.model.messages import Data, Frame, Publish, SessionMessage
from holdfast.model.metadata import thesis_bytes
from holdfast.model.relay_messages import Relay
from holdfast.model.wire import encode

GINGER_BYTES = 12
"""What the thesis would count for a message of Ginger's: the link's number, the publisher, and its number."""


class Scale:
    """Weighs frames, and adds up what it has weighed since `begin`."""

    def __init__(self) -> None:
        self.begin(as_thesis=False)

    def begin(self, as_thesis: bool) -> None:
        self.as_thesis = as_thesis
        self.copies = self.header_bytes = self.beside_bytes = 0
        self.header_bytes_max = 0
        self._noted: dict[tuple[str, str], deque[int]] = {}

    def note(self, sender: str, receiver: str, size_bytes: int) -> None:
        """What the thesis counts for a header that LoCaMu is about to send; frames of a link leave in that order."""
        if self.as_thesis:
            self._noted.setdefault((sender, receiver), deque()).append(size_bytes)

    def __call__(self, sender: str, receiver: str, frame: Frame) -> int:
        """What the frame weighs."""
        batch = getattr(frame.message, "batch", None) if type(frame) is Data else None
        if batch is None:
            weight = 0 if self.as_thesis else len(encode(frame))
            self.beside_bytes += weight
            return weight
        payload_bytes = len(batch.payloads)
        if self.as_thesis:
            header_bytes = self._counted(sender, receiver, frame.message)  # type: ignore[union-attr]  # it has a batch
            weight = payload_bytes + header_bytes
        else:
            weight = len(encode(frame))
            header_bytes = weight - payload_bytes - len(batch.topic.encode())
        self.copies += 1
        self.header_bytes += header_bytes
        self.header_bytes_max = max(self.header_bytes_max, header_bytes)
        return weight

    def _counted(self, sender: str, receiver: str, message: SessionMessage) -> int:
        if isinstance(message, Relay):
            return self._noted[sender, receiver].popleft()
        return GINGER_BYTES if isinstance(message, Publish) else thesis_bytes(message)
