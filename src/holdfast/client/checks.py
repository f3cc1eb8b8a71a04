"""What a publication must be, checked where the application can still see which one it was."""

from collections.abc import Iterable, Mapping
from typing import TypeGuard

from holdfast.client.arguments import plain, shown
from holdfast.client.errors import MessageError
from holdfast.model.batches import ATTRIBUTES_MAX, KEY_BYTES_MAX, KEYS_MAX, Attributes, Keys
from holdfast.model.filters import Value, parse_filter
from holdfast.model.guarantees import GUARANTEES, GuaranteeError, check_guarantee
from holdfast.model.topics import CHECKED_MAX, check_pattern, check_stream, check_unreserved

ATTRIBUTE_NAME_BYTES_MAX = 256
ATTRIBUTE_TEXT_BYTES_MAX = 4096
INTEGER_MIN, INTEGER_MAX = -(1 << 63), (1 << 64) - 1


def checked_payload(payload: object, bytes_max: int) -> bytes:
    """The payload as bytes of a legal size."""
    if isinstance(payload, bytearray | memoryview):
        payload = bytes(payload)
    if not isinstance(payload, bytes):
        advice = "; encode the text first, as in text.encode()" if isinstance(payload, str) else ""
        raise MessageError(f"a payload is bytes, not {type(payload).__name__}{advice}")
    if len(payload) > bytes_max:
        raise MessageError(f"a payload of {len(payload)} bytes is over the limit of {bytes_max}: publish it in pieces")
    return bytes(payload)


def checked_keys(keys: Iterable[str]) -> Keys:
    """The keys without repeats."""
    if isinstance(keys, str | bytes) or not isinstance(keys, Iterable):
        raise MessageError(f"keys are a list of strings such as ['PT50-1'], not {shown(keys)}")
    found = tuple(dict.fromkeys(_text("key", key, KEY_BYTES_MAX) for key in keys))
    if len(found) > KEYS_MAX:
        raise MessageError(f"a message has at most {KEYS_MAX} keys; this one has {len(found)}")
    return found


def is_plain_key(keys: Iterable[str]) -> TypeGuard[tuple[str]]:
    """Whether these keys are one that surely needs no check: most are."""
    if type(keys) is not tuple or len(keys) != 1:
        return False
    key = keys[0]
    return type(key) is str and len(key) <= KEY_BYTES_MAX and key.isascii()


def checked_attributes(attributes: Mapping[str, Value]) -> Attributes:
    """A copy of the attributes, with values of exactly the types that travel."""
    if not isinstance(attributes, Mapping):
        raise MessageError(f"attributes are a mapping such as {{'amount': 120}}, not {type(attributes).__name__}")
    if len(attributes) > ATTRIBUTES_MAX:
        raise MessageError(f"a message has at most {ATTRIBUTES_MAX} attributes; this one has {len(attributes)}")
    return {
        _text("attribute's name", name, ATTRIBUTE_NAME_BYTES_MAX): _value(name, value)
        for name, value in attributes.items()
    }


def checked_extras(
    keys: Iterable[str] | None, attributes: Mapping[str, Value] | None
) -> tuple[Keys, Attributes | None]:
    """Keys and attributes, which most messages do not have."""
    found = () if keys is None else checked_keys(keys)
    return found, None if attributes is None else checked_attributes(attributes) or None


def checked_rank(guarantee: object, ranks: Mapping[str, int], protocol: str) -> int:
    """The rank of a guarantee that exists and that the broker's protocol gives."""
    if isinstance(guarantee, str) and guarantee in ranks:
        return ranks[guarantee]
    known = check_guarantee(guarantee)  # type: ignore[arg-type]  # that is what is checked
    if known not in ranks:
        given = ", ".join(name for name in GUARANTEES if name in ranks)
        raise GuaranteeError(f"the broker's protocol {protocol} gives {given}, not {known}: publish with one of those")
    return ranks[known]


def checked_payloads(payloads: object) -> None:
    """Raise `MessageError` unless something can be published of them; each is checked when its turn comes."""
    if not isinstance(payloads, Iterable):
        raise MessageError(f"payloads are a list of bytes such as [b'one', b'two'], not {shown(payloads)}")


def checked_durable(durable: object) -> bool | str | None:
    """Whether, or by the name of a stream where, to store; raises `MessageError` or `TopicError` if it is neither."""
    if isinstance(durable, str):
        return check_stream(durable) if durable else ""
    if durable is None or isinstance(durable, bool):
        return durable
    raise MessageError(f"durable is True, False, None or the name of a stream, not {shown(durable)}")


def checked_interest(pattern: object, where: object) -> tuple[str, str]:
    """A pattern and a filter in the types that travel."""
    found = check_pattern(pattern)  # type: ignore[arg-type]  # that is what is checked
    if isinstance(where, str) and not where:
        return found, ""
    return found, plain(parse_filter(where).text)  # type: ignore[arg-type]  # the same


def size_bytes(keys: Keys, attributes: Attributes | None) -> int:
    """About what keys and attributes take on the wire."""
    total = sum(map(len, keys)) + 8 * len(keys)
    if attributes:
        for name, value in attributes.items():
            total += len(name) + 16 + (len(value) if isinstance(value, str) else 0)
    return total


def _value(name: str, value: object) -> Value:
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _text(f"attribute {name!r}", value, ATTRIBUTE_TEXT_BYTES_MAX)
    if isinstance(value, int):
        if not INTEGER_MIN <= value <= INTEGER_MAX:
            raise MessageError(f"attribute {name!r} is {value}, which does not fit into 64 bits; send it as a string")
        return int(value)
    if isinstance(value, float):
        return float(value)
    raise MessageError(f"attribute {name!r} is a {type(value).__name__}; attributes are strings, numbers and booleans")


def _text(what: str, text: object, bytes_max: int) -> str:
    if not isinstance(text, str):
        raise MessageError(
            f"a {what} is a string, not {shown(text)}" if what == "key" else f"an {what} is a string, not {shown(text)}"
        )
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise MessageError(f"{what} {text!r} has half a surrogate pair, which UTF-8 cannot carry") from None
    if size > bytes_max:
        raise MessageError(f"{what} {text[:40]!r}... has {size} bytes; at most {bytes_max} are allowed")
    return plain(text)


def checked_topic(topic: object, known: dict[str, str]) -> str:
    """The topic if an application can publish on it; those that were checked are remembered in `known`."""
    found = known.get(topic) if isinstance(topic, str) else None
    if found is None:
        found = check_unreserved(topic)  # type: ignore[arg-type]  # that is what is checked
        if len(known) >= CHECKED_MAX:
            known.clear()
        known[found] = found
    return found
