"""Charts: every value has a mark at its height, equal values give equal bytes, and what cannot be drawn is said."""

import re
import xml.etree.ElementTree as ET

import pytest

from holdfast.experiments.charts import Chart, ChartError, Scale, Series, draw, tick_text

SVG = "{http://www.w3.org/2000/svg}"


def marks(svg: str, shape: str) -> dict[str, ET.Element]:
    """The shapes that say a value when pointed at, by what they say."""
    found = {}
    for one in ET.fromstring(svg).iter(f"{SVG}{shape}"):
        title = one.find(f"{SVG}title")
        if title is not None and title.text:
            found[title.text] = one
    return found


def texts(svg: str) -> list[str]:
    return [one.text or "" for one in ET.fromstring(svg).iter(f"{SVG}text")]


def test_every_value_becomes_a_bar_and_a_missing_one_none():
    chart = Chart("t", ("0", "1"), (Series("causal", (200.0, 100.0)), Series("total", (400.0, None))))
    bars = marks(draw([chart]), "rect")
    assert list(bars) == ["causal, 0: 200", "causal, 1: 100", "total, 0: 400"]
    heights = [float(bar.attrib["height"]) for bar in bars.values()]
    assert heights[0] == pytest.approx(2 * heights[1], abs=0.1)
    assert heights[2] == pytest.approx(4 * heights[1], abs=0.1)


def test_bars_stand_on_the_axis_and_stacked_parts_on_each_other():
    parts = (Series("doubt", (300.0,)), Series("asking", (100.0,)))
    doubt, asking = marks(draw([Chart("t", ("1",), parts, kind="stack")]), "rect").values()
    top_of_doubt = float(doubt.attrib["y"])
    assert float(asking.attrib["y"]) + float(asking.attrib["height"]) == pytest.approx(top_of_doubt, abs=0.11)


def test_a_stack_is_labelled_with_its_sum():
    parts = (Series("doubt", (300.0,)), Series("asking", (123.0,)))
    assert "423" in texts(draw([Chart("t", ("1",), parts, kind="stack")]))


def test_lines_pass_through_their_points_and_leave_gaps_out():
    chart = Chart("t", ("1", "10", "100"), (Series("total", (900.0, None, 800.0)),), kind="lines")
    svg = draw([chart])
    assert list(marks(svg, "circle")) == ["total, 1: 900", "total, 100: 800"]
    line = next(ET.fromstring(svg).iter(f"{SVG}polyline"))
    assert len(line.attrib["points"].split()) == 2


def test_on_a_logarithmic_axis_equal_factors_are_equal_distances():
    scale = Scale(30.0, 4000.0, logarithmic=True)
    assert scale.share(100.0) - scale.share(50.0) == pytest.approx(scale.share(2000.0) - scale.share(1000.0))
    assert scale.low <= 30.0
    assert scale.high >= 4000.0


@pytest.mark.parametrize("highest", [0.0, 0.3, 1.0, 7.0, 99.0, 100.0, 101.0, 16_000.0])
def test_an_even_axis_begins_at_zero_and_covers_everything(highest: float):
    scale = Scale(0.0, highest, logarithmic=False)
    assert scale.ticks[0] == 0.0
    assert scale.high >= highest
    assert 2 <= len(scale.ticks) <= 7


@pytest.mark.parametrize("value", [0.004, 1.0, 10.0, 1000.0, 12_345.0])
def test_a_logarithmic_axis_has_room_for_a_single_value(value: float):
    scale = Scale(value, value, logarithmic=True)
    assert 0.0 <= scale.share(value) <= 1.0
    assert scale.low < scale.high


def test_whiskers_reach_from_the_least_to_the_most():
    chart = Chart("t", ("1",), (Series("mean", (200.0,), ((100.0, 400.0),)),))
    bar = marks(draw([chart]), "rect")["mean, 1: 200"]
    top, bottom = float(bar.attrib["y"]), float(bar.attrib["y"]) + float(bar.attrib["height"])
    path = next(ET.fromstring(draw([chart])).iter(f"{SVG}path")).attrib["d"]
    high, low = (float(number) for number in re.findall(r" ([0-9.]+)h", path))
    assert bottom - high == pytest.approx(2 * (bottom - top), abs=0.2)
    assert bottom - low == pytest.approx((bottom - top) / 2, abs=0.2)


def test_panels_stand_side_by_side_and_below_each_other():
    chart = Chart("t", ("0",), (Series("causal", (1.0,)),))
    page = ET.fromstring(draw([chart] * 3, columns=2))
    places = [one.attrib["transform"] for one in page.findall(f"{SVG}g")]
    assert places == ["translate(0,0)", "translate(520,0)", "translate(0,320)"]
    assert page.attrib["viewBox"] == "0 0 1040 640"


def test_the_same_values_give_the_same_bytes_and_texts_are_escaped():
    chart = Chart("a < b & c", ("0",), (Series("<x>", (1.5,)),), "<faults>", "m&s")
    assert draw([chart]) == draw([chart])
    assert {"a < b & c", "<x>", "<faults>", "m&s", "1.5"} <= set(texts(draw([chart])))


@pytest.mark.parametrize(
    ("chart", "said"),
    [
        (Chart("t", (), (Series("a", ()),)), "no places"),
        (Chart("t", ("0",), ()), "no series"),
        (Chart("t", ("0", "1"), (Series("a", (1.0,)),)), "1 values"),
        (Chart("t", ("0",), (Series("a", (1.0,), ((0.0, 1.0), None)),)), "2 whiskers"),
        (Chart("t", ("0",), (Series("a", (0.0,)),), kind="lines", logarithmic=True), "logarithmic"),
        (Chart("t", ("0",), (Series("a", (1.0,)),), kind="stack", logarithmic=True), "logarithmic"),
    ],
)
def test_what_cannot_be_drawn_is_refused_with_its_title(chart: Chart, said: str):
    with pytest.raises(ChartError, match=said) as refused:
        draw([chart])
    assert "'t'" in str(refused.value)


def test_no_chart_at_all_is_refused():
    with pytest.raises(ChartError, match="no chart"):
        draw([])


def test_large_figures_are_shortened_beside_the_axis_where_there_is_little_room():
    assert [tick_text(value) for value in (0.5, 10_000, 100_000, 1e6, 2.5e9)] == ["0.5", "10,000", "100k", "1M", "2.5G"]
