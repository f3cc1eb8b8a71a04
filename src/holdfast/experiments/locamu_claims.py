"""What the thesis' text says of figures 5.1 to 5.4, held against our rows, and the reasons where they differ.

Whether a claim holds is decided by the rows of this very run; the reasons are those that full runs have shown. Claims
are about frames that weigh what the thesis counts, and some are asked once more of our own wire.
"""

from collections.abc import Iterator, Sequence

from holdfast.experiments.experiment import PaperClaim
from holdfast.experiments.locamu import LocamuLoad
from holdfast.experiments.locamu_bounds import SIZES, header_bytes, locamu_bound
from holdfast.experiments.locamu_points import (
    BOTH,
    CAUSAL,
    CROWD_MBPS,
    PACED_MBPS,
    PRESSED,
    PRESSED_BROKERS,
    PRESSED_MBPS,
    Shape,
    crowd,
    everybody,
    pace,
    pressed,
)
from holdfast.experiments.locamu_rows import Found

DELTA = "delta-neighbourhood"
NAMES = {False: "on our wire", True: "as the thesis counts"}
SIMILAR = 0.25
"""Values that differ by less than this share are similar."""
ALIKE = 0.03
"""And below this one they are the same."""

NOTABLE = 0.1
"""What differs by less than this is not said to grow, or to drop."""

WHY_FLAT = (
    "delta-neighbourhood gets slower as the tree gets deeper, and so does LoCaMu, as the thesis counts: its headers "
    "grow until every neighbourhood is full."
)
WHY_HARDLY = "a larger neighbourhood adds a few bytes to a header on our wire, beside the payload and the rest."
WHY_NO_OVERTAKING = (
    "a publisher of delta-neighbourhood waits for a round trip of up to 32 ms a message here (16 edges of 1 ms, there "
    "and back), so that more of them are needed than there are; with less bandwidth, LoCaMu's metadata costs enough."
)
WHY_SMALL_HEADERS = (
    "our headers are differences against what the link has carried, in one byte mostly: what the thesis counts with "
    "some 200 bytes is about 20 to 40 on our wire, no more than the path of delta-neighbourhood."
)
WHY_CBCAST = (
    "a clock of so few members is no larger than LoCaMu's identifiers and past; both are some 200 bytes, and LoCaMu's "
    "are largest around the root, where everything has to pass."
)
WHY_FITS = "100 messages a second of everybody fit into the bandwidth whatever the metadata, so that nobody is behind."
WHY_PRESSED = (
    "who publishes on and on without being given anything depends on little, and CBCAST says what has changed alone: "
    "its headers shrink the more is under way, and with them what it lags behind. What is sustainable is above."
)
WHY_SOON = (
    "what changed since the last message to the same receiver is much when a publisher says little and belongs to many "
    "groups, each with a clock of its own."
)
WHY_DEGREE = "the trees of different degrees differ in size, too, and with that in depth: see the places of the figure."


def claims(found: Found, of: Shape) -> Iterator[PaperClaim]:
    """One after the other, those of which there are rows."""
    for as_thesis in BOTH:
        yield from _size(found, of, as_thesis)
    for as_thesis in BOTH:
        yield from _overtaking(found, of, as_thesis)
    yield from _bandwidth(found, of)
    yield from _payload(found, of)
    yield from _tolerance(found, of)
    yield from _degree(found, of)
    for subtrees in (False, True):
        yield from _metadata(found, of, subtrees)
        for mbps in PACED_MBPS:
            yield from _falling_behind(found, of, subtrees, mbps)
        yield from _pressed(found, subtrees)
    yield from _groups(found, of)
    yield from _constant(found, of)


def _known(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value]


def _listed(places: Sequence[object], values: Sequence[float | None]) -> str:
    known = [(place, value) for place, value in zip(places, values, strict=True) if value]
    return ", ".join(f"{place}: {value:,.3g}" if value < 100 else f"{place}: {value:,.0f}" for place, value in known)


def _ratio(found: Found, load: LocamuLoad, **world: int | bool) -> float | None:
    locamu, delta = (found.get(protocol, load, **world) for protocol in ("locamu", DELTA))
    return locamu.per_s / delta.per_s if locamu and delta and delta.per_s else None


def _size(found: Found, of: Shape, as_thesis: bool) -> Iterator[PaperClaim]:
    load = LocamuLoad(messages=of.alone, as_thesis=as_thesis)
    ratios = [_ratio(found, load, brokers=brokers) for brokers in of.sizes]
    known = _known(ratios)
    if len(known) > 1:
        says = "with one publisher LoCaMu is above delta-neighbourhood, and the gap grows with the size of the tree."
        ours = f"{NAMES[as_thesis]}, times as fast, by brokers: {_listed(of.sizes, ratios)}."
        grows = known[-1] == max(known) and known[-1] > (1 + NOTABLE) * known[0]
        yield PaperClaim("5.1a", says, ours, min(known) > 1 and grows, WHY_FLAT)


def _overtaking(found: Found, of: Shape, as_thesis: bool) -> Iterator[PaperClaim]:
    ratios = [_ratio(found, load) for load in crowd(of, as_thesis)]
    known = _known(ratios)
    if len(known) > 1:
        says = "delta-neighbourhood grows with the number of publishers and overtakes LoCaMu."
        ours = f"{CROWD_MBPS:g} Mbps, {NAMES[as_thesis]}, LoCaMu is times as fast, by publishers: "
        why = WHY_NO_OVERTAKING if as_thesis else WHY_SMALL_HEADERS
        yield PaperClaim("5.1b", says, f"{ours}{_listed(of.crowd, ratios)}.", known[0] > 1 > known[-1], why)


def _alone_by(found: Found, protocol: str, loads: Sequence[LocamuLoad]) -> list[float | None]:
    return found.per_s(protocol, loads)


def _bandwidth(found: Found, of: Shape) -> Iterator[PaperClaim]:
    loads = [LocamuLoad(messages=of.alone, mbps=mbps, as_thesis=True) for mbps in of.mbps]
    locamu, delta = (_alone_by(found, protocol, loads) for protocol in ("locamu", DELTA))
    if len(_known(locamu)) == len(_known(delta)) == len(loads):
        known, slow = _known(locamu), _known(delta)
        says = "LoCaMu uses the bandwidth that there is; delta-neighbourhood waits for latency and gains nothing."
        gains = (known[-1] / known[0], slow[-1] / slow[0])
        more = of.mbps[-1] / of.mbps[0]
        ours = f"with {more:g} times the bandwidth LoCaMu is {gains[0]:,.0f} times as fast, delta {gains[1]:.1f} times."
        yield PaperClaim("5.1c", says, ours, gains[0] > more / 4 and gains[1] < more / 100)


def _payload(found: Found, of: Shape) -> Iterator[PaperClaim]:
    ratios = [_ratio(found, LocamuLoad(messages=of.alone, payload_bytes=one, as_thesis=True)) for one in of.payloads]
    if len(_known(ratios)) > 1:
        known = _known(ratios)
        says = "the larger the payload, the more alike both become."
        ours = f"LoCaMu is times as fast, by bytes: {_listed(of.payloads, ratios)}."
        yield PaperClaim("5.1d", says, ours, known[-1] < known[0])


def _tolerance(found: Found, of: Shape) -> Iterator[PaperClaim]:
    for as_thesis in BOTH:
        load = LocamuLoad(messages=of.alone, as_thesis=as_thesis)
        results = [
            found.get("locamu", load, brokers=of.tolerance_brokers, tolerance=tolerance) for tolerance in of.tolerances
        ]
        values = [one.per_s / of.tolerance_brokers if one else None for one in results]
        if len(_known(values)) > 1:
            says = "LoCaMu drops notably with f."
            ours = f"{NAMES[as_thesis]}, messages a second, by f: {_listed(of.tolerances, values)}."
            drops = _known(values)[-1] < (1 - NOTABLE) * _known(values)[0]
            yield PaperClaim("5.1e", says, ours, drops, WHY_HARDLY)


def _degree(found: Found, of: Shape) -> Iterator[PaperClaim]:
    load, degrees = LocamuLoad(messages=of.alone, as_thesis=True), [fan_out + 1 for fan_out, _ in of.degrees]
    speeds: dict[str, list[float | None]] = {}
    for protocol in ("locamu", DELTA):
        results = [(found.get(protocol, load, brokers, fan_out=fan_out), brokers) for fan_out, brokers in of.degrees]
        speeds[protocol] = [one.per_s / brokers if one else None for one, brokers in results]
    locamu, delta = (_known(speeds[protocol]) for protocol in speeds)
    if len(locamu) > 1 and len(delta) > 1:
        says = "LoCaMu drops with the degree, delta-neighbourhood gains since the tree is less deep."
        ours = f"messages a second, by degree: LoCaMu {_listed(degrees, speeds['locamu'])}; "
        ours += f"delta {_listed(degrees, speeds[DELTA])}."
        yield PaperClaim("5.1f", says, ours, locamu[0] > locamu[-1] and delta[0] < delta[-1], WHY_DEGREE)


def _metadata(found: Found, of: Shape, subtrees: bool) -> Iterator[PaperClaim]:
    figure = "5.3b" if subtrees else "5.2b"
    loads = pace(of, as_thesis=True)
    bytes_of = {protocol: found.header_bytes(protocol, loads, subtrees=subtrees) for protocol in CAUSAL}
    locamu, cbcast, barriers = (bytes_of[protocol] for protocol in ("locamu", "cbcast", "barriers"))
    if locamu[0] and cbcast[0] and locamu[-1] and cbcast[-1]:
        says = "CBCAST needs less metadata than LoCaMu with few publishers, and more with many."
        ours = f"by publishers: CBCAST {_listed(of.publishers, cbcast)}; LoCaMu {_listed(of.publishers, locamu)}."
        yield PaperClaim(figure, says, ours, cbcast[0] < locamu[0] and cbcast[-1] > locamu[-1], WHY_SOON)
    known = [
        (high, max(low, other))
        for high, low, other in zip(barriers, locamu, cbcast, strict=True)
        if high and low and other
    ]
    if known:
        says = "causal barriers need far more than any other."
        ours = f"by publishers: barriers {_listed(of.publishers, barriers)}."
        yield PaperClaim(figure, says, ours, all(high > 2 * other for high, other in known))


def _falling_behind(found: Found, of: Shape, subtrees: bool, mbps: float) -> Iterator[PaperClaim]:
    figure = ("5.3" if subtrees else "5.2") + ("a" if mbps == PACED_MBPS[0] else "c")
    for as_thesis in BOTH:
        loads = pace(of, as_thesis)
        locamu, cbcast, barriers = (
            found.sustained(protocol, loads, mbps, subtrees=subtrees) for protocol in ("locamu", "cbcast", "barriers")
        )
        if locamu[-1] and cbcast[-1]:
            says = "with all publishing, CBCAST falls behind LoCaMu."
            ours = (
                f"{mbps:g} Mbps, {NAMES[as_thesis]}, {of.publishers[-1]} publishers, sustainable deliveries a second: "
            )
            ours += f"LoCaMu {locamu[-1]:,.0f}, CBCAST {cbcast[-1]:,.0f}."
            fits = abs(cbcast[-1] / locamu[-1] - 1) < ALIKE
            yield PaperClaim(figure, says, ours, not fits and cbcast[-1] < locamu[-1], WHY_FITS if fits else WHY_CBCAST)
        both = [(one, other) for one, other in zip(barriers, locamu, strict=True) if one and other]
        if both and as_thesis:
            says = "causal barriers are far below."
            low, high = both[-1]
            place = of.publishers[len([one for one in barriers if one]) - 1]
            ours = f"{mbps:g} Mbps, {place} publishers, sustainable deliveries a second: "
            ours += f"LoCaMu {high:,.0f}, barriers {low:,.0f}."
            yield PaperClaim(
                figure, says, ours, 2 * low < high, f"with {place} publishers {mbps:g} Mbps are enough for all."
            )


def _pressed(found: Found, subtrees: bool) -> Iterator[PaperClaim]:
    """The same where more is published than fits."""
    figure, world = "5.3c" if subtrees else "5.2c", {"brokers": PRESSED_BROKERS, "subtrees": subtrees}
    for as_thesis in BOTH:
        load = pressed(as_thesis)[-1]
        found_of = {one: found.get(one, load, **world) for one in CAUSAL}
        locamu, cbcast, barriers = (found_of[one] for one in ("locamu", "cbcast", "barriers"))
        where = f"{PRESSED_BROKERS} brokers, {PRESSED_MBPS:g} Mbps, {NAMES[as_thesis]}, {PRESSED[-1]} publishers, "
        where += "overloaded, deliveries a second: "
        if locamu and cbcast:
            ours = f"{where}LoCaMu {locamu.per_s:,.0f}, CBCAST {cbcast.per_s:,.0f}."
            behind = cbcast.per_s < (1 - ALIKE) * locamu.per_s
            yield PaperClaim(figure, "with all publishing, CBCAST falls behind LoCaMu.", ours, behind, WHY_PRESSED)
        if locamu and barriers:
            ours = f"{where}LoCaMu {locamu.per_s:,.0f}, barriers {barriers.per_s:,.0f}."
            yield PaperClaim(figure, "causal barriers are far below.", ours, 2 * barriers.per_s < locamu.per_s)


def _groups(found: Found, of: Shape) -> Iterator[PaperClaim]:
    loads = pace(of, as_thesis=True)
    for protocol, says in (
        ("cbcast", "CBCAST needs more metadata with many groups than with one."),
        ("locamu", "LoCaMu needs about as much with many groups as with one."),
    ):
        one, many = (found.header_bytes(protocol, loads, subtrees=subtrees)[-1] for subtrees in (False, True))
        if one and many:
            ours = f"{of.publishers[-1]} publishers: {one:,.0f} bytes with one group, {many:,.0f} with many."
            is_more = many > (1 + SIMILAR) * one
            yield PaperClaim("5.3", says, ours, is_more if protocol == "cbcast" else not is_more, WHY_CBCAST)


def _constant(found: Found, of: Shape) -> Iterator[PaperClaim]:
    bound = locamu_bound(1, 2)
    most = {protocol: [header_bytes(protocol, size, bound) for size in SIZES] for protocol in CAUSAL}
    says = "LoCaMu's largest header does not depend on the size of the system; those of the others grow with it."
    ours = f"at {SIZES[0]} and {SIZES[-1]:,} brokers: " + "; ".join(
        f"{protocol} {values[0]:,} and {values[-1]:,}" for protocol, values in most.items()
    )
    grows = most["cbcast"][-1] > most["cbcast"][0] and most["barriers"][-1] > most["barriers"][0]
    yield PaperClaim("5.4a", says, f"{ours} bytes.", grows and len(set(most["locamu"])) == 1)
    results = [found.get("locamu", everybody(one)[True], brokers=one) for one in of.everybody]
    values = [one.header_bytes if one else None for one in results]
    if len(_known(values)) > 1:
        known = _known(values)
        ours = f"everybody publishes, bytes a message on average, by brokers: {_listed(of.everybody, values)}."
        yield PaperClaim(
            "5.4a", "LoCaMu is constant in the size of the system.", ours, known[-1] < known[-2] * (1 + SIMILAR)
        )
