"""Which points make up the figures of the LoCaMu thesis' chapter 5, and how many messages each is worth.

The thesis says what is varied and not to which values, so these are ours. Messages are as few as give a steady middle
half: a run with 511 publishers, where every message is delivered 511 times, has two of each.
"""

from collections.abc import Iterator

from msgspec import Struct

from holdfast.experiments.locamu import LocamuLoad, LocamuPoint
from holdfast.protocols.registry import find_protocol

LOCALIZED = ("locamu", "delta-neighbourhood", "ginger")
CAUSAL = ("locamu", "cbcast", "barriers", "ginger")
BOTH = (False, True)
"""Frames as on our wire, and as the thesis counts."""
PACE_MS = 10.0
"""A publisher's 100 messages a second (5.5)."""
THESIS_MBPS = 100.0
PACED_MBPS = (THESIS_MBPS, 10.0)
"""What figures 5.2 and 5.3 are shown for."""
WIDE_MBPS = 1000.0
"""And what they are run with: enough for everybody, so that all messages depend on all before them."""
CROWD_MBPS = 10.0
PRESSED_BROKERS, PRESSED_MBPS, PRESSED_MESSAGES = 63, 10.0, 8
"""Where publishers at their pace have more to say than fits, and go on all the same."""
PRESSED = (8, PRESSED_BROKERS)
"""How many of them there are."""


class Shape(Struct, frozen=True):
    """How large everything is."""

    brokers: int
    sizes: tuple[int, ...]
    crowd: tuple[int, ...]
    """Publishers that publish as fast as they can (5.1b)."""
    crowd_messages: int
    """How many they publish together: enough to fill the tree for several times as long as a message is under way."""
    mbps: tuple[float, ...]
    payloads: tuple[int, ...]
    tolerances: tuple[int, ...]
    tolerance_brokers: int
    degrees: tuple[tuple[int, int], ...]
    """Children of a broker, and brokers in such a tree."""
    publishers: tuple[int, ...]
    """Publishers at their pace (5.2 and 5.3)."""
    barred: int
    """With more publishers, causal barriers are not run: each of their messages would be megabytes."""
    everybody: tuple[int, ...]
    """Sizes of trees in which everybody publishes (5.4)."""
    alone: int
    """Messages of a publisher that is alone."""


FULL = Shape(
    brokers=511,
    sizes=(31, 63, 127, 255, 511),
    crowd=(1, 16, 128),
    crowd_messages=256,
    mbps=(1.0, 10.0, 100.0, 1000.0),
    payloads=(32, 128, 512, 2048),
    tolerances=(1, 2, 3),
    tolerance_brokers=63,
    degrees=((2, 127), (3, 121), (4, 85), (5, 156)),
    publishers=(1, 8, 64, 511),
    barred=8,
    everybody=(31, 63, 127),
    alone=32,
)
QUICK = Shape(
    brokers=63,
    sizes=(15, 31, 63),
    crowd=(1, 8, 63),
    crowd_messages=256,
    mbps=(1.0, 10.0, 100.0, 1000.0),
    payloads=(32, 512, 2048),
    tolerances=(1, 2),
    tolerance_brokers=31,
    degrees=((2, 31), (3, 40), (4, 21)),
    publishers=(1, 8, 63),
    barred=63,
    everybody=(15, 31, 63),
    alone=32,
)


def shape(quick: bool) -> Shape:
    return QUICK if quick else FULL


def points(quick: bool) -> list[LocamuPoint]:
    """Every world with its loads; the largest first, so that nobody is left to wait for one of them at the end."""
    found = list(dict.fromkeys(_points(shape(quick))))
    return sorted(found, key=lambda point: -_work(point))


def _work(point: LocamuPoint) -> int:
    """About how much there is to do: messages everywhere and, in a mesh, everybody's greetings and interests."""
    meeting = point.brokers * (8 if point.subtrees else 1) if find_protocol(point.protocol).meshed else 0
    return point.brokers * (meeting + sum(load.publishers * load.messages for load in point.loads))


def _points(of: Shape) -> Iterator[LocamuPoint]:
    for protocol in LOCALIZED:
        yield from _localized(of, protocol)
    for protocol in CAUSAL:
        yield from _causal(of, protocol)
    for protocol in ("locamu", "ginger"):
        for absent in (False, True):
            yield LocamuPoint(protocol, of.brokers, loads=steady(), absent=absent)


def _localized(of: Shape, protocol: str) -> Iterator[LocamuPoint]:
    """Figure 5.1."""
    for brokers in of.sizes:
        yield LocamuPoint(protocol, brokers, loads=alone(of))
    for as_thesis in BOTH:
        yield LocamuPoint(protocol, of.brokers, loads=tuple(crowd(of, as_thesis)))
    yield LocamuPoint(protocol, of.brokers, loads=bandwidths(of))
    yield LocamuPoint(protocol, of.brokers, loads=payloads(of))
    for tolerance in of.tolerances:
        yield LocamuPoint(protocol, of.tolerance_brokers, tolerance=tolerance, loads=alone(of))
    for fan_out, brokers in of.degrees:
        yield LocamuPoint(protocol, brokers, fan_out, loads=alone(of))


def _causal(of: Shape, protocol: str) -> Iterator[LocamuPoint]:
    """Figures 5.2 and 5.3, and what is measured beside 5.4."""
    most = of.barred if protocol == "barriers" else of.publishers[-1]
    for subtrees in (False, True):
        # Few publishers come first, since a message says what has changed since the one before.
        loads = [load for pair in zip(pace(of, False), pace(of, True), strict=True) for load in pair]
        loads = [load for load in loads if load.publishers <= most]
        if find_protocol(protocol).meshed:
            # Everybody has to meet everybody before anything can be published: that is done once for all.
            yield LocamuPoint(protocol, of.brokers, subtrees=subtrees, loads=tuple(loads))
        else:
            for some in (loads[:-2], loads[-2:]):
                yield LocamuPoint(protocol, of.brokers, subtrees=subtrees, loads=tuple(some))
        both = [load for pair in zip(pressed(False), pressed(True), strict=True) for load in pair]
        yield LocamuPoint(protocol, PRESSED_BROKERS, subtrees=subtrees, loads=tuple(both))
    for brokers in of.everybody:
        if brokers < of.everybody[-1] or protocol != "barriers":
            yield LocamuPoint(protocol, brokers, loads=everybody(brokers))


# ------------------------------------------------------------------------------------------------------------ loads


def alone(of: Shape) -> tuple[LocamuLoad, ...]:
    """One publisher, as fast as possible."""
    return tuple(LocamuLoad(messages=of.alone, as_thesis=as_thesis) for as_thesis in BOTH)


def crowd(of: Shape, as_thesis: bool) -> list[LocamuLoad]:
    """More and more publishers, as fast as possible; with 100 Mbps it would take thousands of messages to fill it."""
    return [LocamuLoad(one, max(2, of.crowd_messages // one), mbps=CROWD_MBPS, as_thesis=as_thesis) for one in of.crowd]


def bandwidths(of: Shape) -> tuple[LocamuLoad, ...]:
    return tuple(
        LocamuLoad(messages=of.alone, mbps=mbps, as_thesis=as_thesis) for mbps in of.mbps for as_thesis in BOTH
    )


def payloads(of: Shape) -> tuple[LocamuLoad, ...]:
    return tuple(
        LocamuLoad(messages=of.alone, payload_bytes=payload, as_thesis=as_thesis)
        for payload in of.payloads
        for as_thesis in BOTH
    )


def pace(of: Shape, as_thesis: bool) -> list[LocamuLoad]:
    """More and more publishers, at 100 messages a second each. What is weighed as on our wire is run first."""
    return [
        LocamuLoad(one, 4 if one < 64 else 2, PACE_MS, WIDE_MBPS, as_thesis=as_thesis, warm=not as_thesis)
        for one in of.publishers
    ]


def pressed(as_thesis: bool) -> list[LocamuLoad]:
    """The same with the bandwidth that there is, whether they fit into it or not."""
    return [
        LocamuLoad(one, PRESSED_MESSAGES, PACE_MS, PRESSED_MBPS, as_thesis=as_thesis, warm=not as_thesis)
        for one in PRESSED
    ]


def everybody(brokers: int) -> tuple[LocamuLoad, ...]:
    """Everybody publishes, at 100 messages a second."""
    return tuple(
        LocamuLoad(brokers, 2, PACE_MS, WIDE_MBPS, as_thesis=as_thesis, warm=not as_thesis) for as_thesis in BOTH
    )


def steady() -> tuple[LocamuLoad, ...]:
    """Four publishers that say somewhat more than 1 Mbps carries: whatever a broker's absence costs is seen."""
    return (LocamuLoad(4, 64, 5.0, 1.0),)
