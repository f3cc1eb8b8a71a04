"""The drawings of a report: latencies, what happened over time, and the balances of the banks."""

from collections.abc import Callable, Sequence
from math import log10
from typing import NamedTuple

from holdfast.model.guarantees import GUARANTEES
from holdfast.pipeline.metrics import CALM
from holdfast.pipeline.report_findings import (
    BrokerRepair,
    Fault,
    HopSpread,
    LoadFindings,
    Rate,
    ReplicaFindings,
    Spread,
)
from holdfast.pipeline.report_marks import (
    COLORS,
    FAULT_COLOR,
    OTHER_COLOR,
    REPAIR_COLOR,
    box,
    even_ticks,
    factor_ticks,
    line,
    svg,
    text,
    tick_text,
)

WIDTH = 960
LATENCY_MS_MIN = 0.001
"""What is drawn on an axis of factors has to be above 0."""
HOPS_COLOR = COLORS["total"]
PHASES = {CALM: "tree whole", "repair": "under repair"}

# ------------------------------------------------------------------------------------------------------- latencies

ROW_PX, NAMES_PX, HEAD_PX = 34, 200, 14


def in_order(spreads: Sequence[Spread]) -> list[Spread]:
    """The weakest guarantee first, and before a repair what was before it."""
    ranks = {guarantee.value: rank for rank, guarantee in enumerate(GUARANTEES)}
    return sorted(spreads, key=lambda one: (ranks.get(one.guarantee, len(ranks)), one.phase != CALM))


class DrawingRow(NamedTuple):
    """One line of a drawing of latencies."""

    name: str
    color: str
    spread: Spread | HopSpread

    @property
    def is_calm(self) -> bool:
        return self.spread.phase == CALM


def latency_drawing(spreads: Sequence[Spread]) -> str:
    """A box from the first to the third quartile for each guarantee and phase, on an axis of factors."""
    rows = [DrawingRow(one.guarantee, COLORS.get(one.guarantee, OTHER_COLOR), one) for one in in_order(spreads)]
    return _boxes(rows, "How long deliveries took, by guarantee")


def hops_drawing(spreads: Sequence[HopSpread]) -> str:
    """The same for each number of brokers on the way."""
    by_hops = sorted(spreads, key=lambda one: (one.hops, one.phase != CALM))
    rows = [DrawingRow(f"{one.hops} broker{'' if one.hops == 1 else 's'}", HOPS_COLOR, one) for one in by_hops]
    return _boxes(rows, "How long deliveries took, by the number of brokers on the way")


def _boxes(rows: Sequence[DrawingRow], label: str) -> str:
    fastest, slowest = min(row.spread.low for row in rows), max(row.spread.highest for row in rows)
    ticks = factor_ticks(max(fastest, LATENCY_MS_MIN), max(slowest, LATENCY_MS_MIN))
    low, span = log10(ticks[0]), log10(ticks[-1]) - log10(ticks[0])
    right, bottom = WIDTH - 30, HEAD_PX + ROW_PX * len(rows)

    def x(value: float) -> float:
        share = (log10(max(value, ticks[0])) - low) / span
        return NAMES_PX + share * (right - NAMES_PX)

    parts = []
    for tick in ticks:
        parts.append(line((x(tick), HEAD_PX), (x(tick), bottom), "grid"))
        parts.append(text((x(tick), bottom + 20), tick_text(tick), "mid"))
        if tick < ticks[-1]:
            parts += [line((x(tick * n), bottom), (x(tick * n), bottom + 4), "axis") for n in range(2, 10)]
    parts.append(line((NAMES_PX, bottom), (right, bottom), "axis"))
    parts.append(
        text(((NAMES_PX + right) / 2, bottom + 44), "from publish to delivery, milliseconds (each line ×10)", "mid")
    )
    for number, row in enumerate(rows):
        parts += _box_row(row, HEAD_PX + ROW_PX * (number + 0.5), x)
    return svg(WIDTH, bottom + 56, label, parts)


def _box_row(row: DrawingRow, y: float, x: Callable[[float], float]) -> list[str]:
    one, color, calm = row.spread, row.color, row.is_calm
    said = (
        f"{row.name}, {PHASES.get(one.phase, one.phase)}: {one.deliveries:,} deliveries; median {one.p50:.2f} ms, "
        f"half within {one.p25:.2f} to {one.p75:.2f} ms, 99 of 100 below {one.p99:.2f} ms, slowest {one.highest:.2f} ms"
    )
    fill = color if calm else "none"
    style = f'stroke="{color}" stroke-width="2.5" rx="3"' + ("" if calm else ' stroke-dasharray="5 3"')
    return [
        text((NAMES_PX - 112, y + 4), row.name, "end strong" if calm else "end small"),
        text((NAMES_PX - 12, y + 4), PHASES.get(one.phase, one.phase), "end"),
        line((x(one.low), y), (x(one.p99), y), "whisker"),
        line((x(one.low), y - 5), (x(one.low), y + 5), "whisker"),
        line((x(one.p99), y - 5), (x(one.p99), y + 5), "whisker"),
        box((x(one.p25), y - 10), (x(one.p75) - x(one.p25), 20), fill, said, style),
        line((x(one.p50), y - 10), (x(one.p50), y + 10), "median"),
        f'<circle cx="{x(one.highest):.1f}" cy="{y:.1f}" r="3" fill="{color}"><title>{said}</title></circle>',
    ]


# --------------------------------------------------------------------------------------------------------- timeline

LEFT, RIGHT, TOP, CURVE_PX, LANE_PX = 76, 16, 58, 210, 20
LETTER_PX = 7.8


class _Time:
    """The horizontal axis of the timeline."""

    def __init__(self, rates: Sequence[Rate], every_s: float) -> None:
        self.last_s = max([one.at_s for one in rates], default=0.0) + every_s
        # It is twice as long as an axis that stands upright, and has room for twice as many lines.
        step = even_ticks(self.last_s / 2)[1]
        self.ticks = [step * number for number in range(int(self.last_s / step) + 1)]

    def x(self, at_s: float) -> float:
        return LEFT + min(max(at_s, 0.0) / self.last_s, 1.0) * (WIDTH - LEFT - RIGHT)


def timeline_drawing(
    rates: Sequence[Rate], every_s: float, faults: Sequence[Fault], repairs: Sequence[BrokerRepair]
) -> str:
    """Deliveries per second, who was killed when, how long that was felt, and below it which broker repaired what."""
    time, bottom = _Time(rates, every_s), TOP + CURVE_PX
    lanes = sorted({one.node for one in repairs})
    end = bottom + (28 + LANE_PX * len(lanes) if lanes else 0)
    parts = _felt(faults, time, bottom) + _rates(rates, every_s, time)
    parts += _kills(faults, time, end) + _lanes(repairs, lanes, time, bottom)
    for tick in time.ticks:
        parts.append(line((time.x(tick), end), (time.x(tick), end + 5), "axis"))
        parts.append(text((time.x(tick), end + 20), tick_text(tick), "mid"))
    parts.append(line((LEFT, end), (WIDTH - RIGHT, end), "axis"))
    parts.append(text(((LEFT + WIDTH - RIGHT) / 2, end + 44), "seconds since the first publication", "mid"))
    return svg(WIDTH, end + 56, "Deliveries per second, with faults and repairs", parts)


def _rates(rates: Sequence[Rate], every_s: float, time: _Time) -> list[str]:
    ticks = even_ticks(max([max(one.deliveries_per_s, one.publications_per_s) for one in rates], default=1.0))
    bottom = TOP + CURVE_PX

    def y(value: float) -> float:
        return bottom - CURVE_PX * value / ticks[-1]

    parts = []
    for tick in ticks:
        parts.append(line((LEFT, y(tick)), (WIDTH - RIGHT, y(tick)), "grid"))
        parts.append(text((LEFT - 8, y(tick) + 4), tick_text(tick), "end"))
    parts.append(text((16, TOP + CURVE_PX / 2), "per second", "mid", turned=True))
    width = time.x(every_s) - time.x(0.0)
    for one in rates:
        said = (
            f"{one.at_s:.2f} s: {one.deliveries_per_s:,.0f} deliveries/s, {one.publications_per_s:,.0f} publications/s"
        )
        at, height = (time.x(one.at_s) + 0.5, y(one.deliveries_per_s)), bottom - y(one.deliveries_per_s)
        parts.append(box(at, (width - 1, height), COLORS["eventual"], said))
    steps = " ".join(
        f"{time.x(one.at_s + shift):.1f},{y(one.publications_per_s):.1f}" for one in rates for shift in (0.0, every_s)
    )
    parts.append(f'<polyline points="{steps}" class="step"/>')
    return parts


def _felt(faults: Sequence[Fault], time: _Time, bottom: float) -> list[str]:
    parts = []
    for one in faults:
        if one.felt_ms is not None:
            x, end = time.x(one.at_s), time.x(one.at_s + one.felt_ms / 1000)
            said = f"{one.felt_ms:.0f} ms from the kill until every broken path delivered again"
            parts.append(box((x, TOP), (end - x, bottom - TOP), FAULT_COLOR, said, 'opacity="0.22"'))
    return parts


def _kills(faults: Sequence[Fault], time: _Time, end: float) -> list[str]:
    parts, free = [], [float("-inf"), float("-inf")]
    for one in sorted(faults, key=lambda fault: fault.at_s):
        x = time.x(one.at_s)
        felt = f", {one.felt_ms:.0f} ms" if one.felt_ms is not None else ""
        said = f"✕ broker {one.broker}{f' ({one.role})' if one.role else ''}{felt}"
        width = LETTER_PX * len(said)
        # Two rows of labels, and a label that would leave the drawing ends at its line instead of beginning there.
        from_px = x - 4 if x + width < WIDTH else x - width
        row = 0 if from_px > free[0] else 1
        free[row] = from_px + width + 10
        parts.append(line((x, TOP - 30 + 18 * row), (x, end), "kill"))
        at = (x - 4, TOP - 36 + 18 * row)
        parts.append(text(at, said, "fault" if from_px >= x - 4 else "fault end"))
    return parts


def _lanes(repairs: Sequence[BrokerRepair], lanes: Sequence[str], time: _Time, bottom: float) -> list[str]:
    if not lanes:
        return []
    parts = [text((LEFT, bottom + 18), "repairs, by the broker that made them", "small")]
    for number, node in enumerate(lanes):
        y = bottom + 24 + LANE_PX * number
        parts.append(text((LEFT - 8, y + 13), f"broker {node}", "end small"))
        parts.append(line((LEFT, y + 9), (WIDTH - RIGHT, y + 9), "grid"))
    for one in repairs:
        y = bottom + 24 + LANE_PX * lanes.index(one.node)
        x, end = time.x(one.start_s), time.x(time.last_s if one.end_s is None else one.end_s)
        took = "not ended" if one.end_s is None else f"{(one.end_s - one.start_s) * 1000:.0f} ms"
        said = f"broker {one.node} repairs the loss of {one.failed}: {took}"
        parts.append(box((x, y + 2), (max(end - x, 3.0), 14), REPAIR_COLOR, said, 'rx="2"'))
        parts.append(text((max(end, x + 3) + 5, y + 13), took, "small"))
    return parts


# --------------------------------------------------------------------------------------------------------- balances

ACCOUNTS_SHOWN_MAX = 200
STRIP_PX = 24


def balances_drawing(replicas: Sequence[ReplicaFindings]) -> str:
    """One bank: a strip for each replica, a cell for each account, stronger where there is more money.

    Equal strips are equal banks; an account on which the replicas differ gets a mark below it.
    """
    accounts = sorted({account for one in replicas for account in one.balances})[:ACCOUNTS_SHOWN_MAX]
    highest = max([cents for one in replicas for cents in one.balances.values()], default=1) or 1
    cell = (WIDTH - LEFT - RIGHT) / max(len(accounts), 1)
    parts = []
    for row, one in enumerate(replicas):
        y = 6 + row * (STRIP_PX + 4)
        parts.append(text((LEFT - 8, y + 16), one.name, "end strong"))
        for at, account in enumerate(accounts):
            cents = one.balances.get(account, 0)
            said = f"{account} at {one.name}: {euros(cents)}"
            shade = f'opacity="{0.08 + 0.92 * max(cents, 0) / highest:.2f}"'
            color = COLORS["total"] if cents >= 0 else FAULT_COLOR
            parts.append(box((LEFT + at * cell, y), (cell - 1, STRIP_PX), color, said, shade))
    bottom = 6 + len(replicas) * (STRIP_PX + 4)
    different = diverged(replicas)
    for at, account in enumerate(accounts):
        if account in different:
            parts.append(text((LEFT + (at + 0.5) * cell, bottom + 10), "✕", "fault mid"))
    label = f"{len(accounts)} accounts; the stronger the colour, the more money (at most {euros(highest)})"
    parts.append(text(((LEFT + WIDTH - RIGHT) / 2, bottom + 26), label, "mid"))
    return svg(WIDTH, bottom + 36, f"Balances of {replicas[0].topic} at every replica", parts)


def diverged(replicas: Sequence[ReplicaFindings]) -> set[str]:
    """The accounts whose balance is not the same at all these replicas."""
    accounts = {account for one in replicas for account in one.balances}
    return {account for account in accounts if len({one.balances.get(account) for one in replicas}) > 1}


def euros(cents: int) -> str:
    return f"{cents / 100:,.2f} €"


# ------------------------------------------------------------------------------------------------------------- load

BAR_PX, BAR_NAMES_PX = 26, 76
LOAD_PARTS = (
    ("led over it, as far as the way is known", OTHER_COLOR),
    ("delivered to its clients", COLORS["eventual"]),
)


def load_drawing(loads: Sequence[LoadFindings]) -> str:
    """A bar for each broker: deliveries whose way led over it, and among these those to its own clients."""
    rows = sorted(loads, key=lambda one: (len(one.broker), one.broker))
    ticks = even_ticks(float(max([max(one.routed, one.deliveries) for one in rows], default=1)))
    right, bottom = WIDTH - 30, HEAD_PX + BAR_PX * len(rows)

    def x(value: float) -> float:
        return BAR_NAMES_PX + value / ticks[-1] * (right - BAR_NAMES_PX)

    parts = []
    for tick in ticks:
        parts.append(line((x(tick), HEAD_PX), (x(tick), bottom), "grid"))
        parts.append(text((x(tick), bottom + 20), f"{tick:,.0f}", "mid"))
    for number, one in enumerate(rows):
        y = HEAD_PX + BAR_PX * number
        said = (
            f"broker {one.broker}: {one.routed:,} deliveries led over it; its {one.clients} clients published "
            f"{one.publications:,} and got {one.deliveries:,}"
        )
        parts.append(text((BAR_NAMES_PX - 12, y + BAR_PX / 2 + 5), one.broker, "end strong"))
        for value, (_, color), inset in zip((one.routed, one.deliveries), LOAD_PARTS, (4, 8), strict=True):
            if value:
                parts.append(box((x(0), y + inset), (x(value) - x(0), BAR_PX - 2 * inset), color, said))
    parts.append(line((x(0), HEAD_PX), (x(0), bottom), "axis"))
    parts.append(text((18, (HEAD_PX + bottom) / 2), "broker", "mid", turned=True))
    parts.append(text(((BAR_NAMES_PX + right) / 2, bottom + 44), "deliveries", "mid"))
    return svg(WIDTH, bottom + 56, "Deliveries that each broker had to do with", parts)
