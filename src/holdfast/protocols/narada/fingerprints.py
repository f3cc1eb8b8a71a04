"""How a message that was ordered is told from another one under the same number."""

import msgspec

from holdfast.model.batches import Batch, make_batch
from holdfast.model.checksums import crc32

_encoder = msgspec.msgpack.Encoder()


def fingerprint(batch: Batch) -> int:
    """A checksum of what the messages say, whatever batch they were cut out of.

    A publisher's numbers may begin again with a new session, so that a message of an earlier one, long under way,
    looks like the one that was ordered. It is taken for it only if it says the same, and then it may be.
    """
    if batch.lengths or len(batch.keys) > 1 or len(batch.attributes) > 1:
        count = range(batch.count)
        batch = make_batch(
            batch.publisher,
            batch.first,
            batch.topic,
            batch.guarantee,
            batch.payload_list(),
            [batch.keys_of(index) for index in count],
            [batch.attributes_of(index) for index in count],
        )
    head = _encoder.encode((batch.count, batch.topic, batch.guarantee, batch.lengths, batch.keys, batch.attributes))
    return crc32(batch.payloads, crc32(head))
