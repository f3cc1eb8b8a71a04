"""The floor's frames: whole ones are passed on, however the stream is cut."""

import pytest

from holdfast.cluster.bench.floor import HEADER, FrameProtocol, frame, payloads_of


class Collector(FrameProtocol):
    """Keeps every payload with its number."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[int, bytes]] = []

    def frames_received(self, data: bytes, starts: list[tuple[int, int, int]], end: int) -> None:
        assert end <= len(data)
        for at, first, count in starts:
            self.seen += enumerate(payloads_of(data, at, count), first)


@pytest.mark.parametrize("step", [1, 3, HEADER.size, 1000])
def test_payloads_come_out_as_they_went_in_however_the_stream_is_cut(step: int):
    stream = frame(1, [b"a", b"", b"ccc"]) + frame(4, []) + frame(4, [b"dd"])
    collector = Collector()
    for at in range(0, len(stream), step):
        collector.data_received(stream[at : at + step])
    assert collector.seen == [(1, b"a"), (2, b""), (3, b"ccc"), (4, b"dd")]
