"""Down-sampled series against the values themselves."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cqels_opt.trace import series as module
from cqels_opt.trace.series import Points, Series

values = st.lists(st.none() | st.integers(-1000, 1000), min_size=1, max_size=150)


def charted(found: list[int | None]) -> tuple[Points, Series]:
    points, named = Points(), {"s": Series()}
    for number, value in enumerate(found):
        point = points.next(number, 10 * number, [named])  # which may replace a series by a merged one
        named["s"].put(point, value)
    return points, named["s"]


@given(values)
def test_every_point_has_the_least_the_greatest_and_the_mean_of_its_records(found: list[int | None]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MOST_POINTS", 8)
        points, series = charted(found)
    width = points.width
    spans = [[v for v in found[start : start + width] if v is not None] for start in range(0, len(found), width)]
    assert len(points) == len(spans) <= 8
    assert points.to_json() == {
        "width": width,
        "batches": list(range(0, len(found), width)),
        "times": list(range(0, 10 * len(found), 10 * width)),
    }
    data = series.to_json(len(points))
    assert data["mean"] == [pytest.approx(sum(span) / len(span), rel=1e-5) if span else None for span in spans]
    if any(len(span) > 1 for span in spans):
        assert data["least"] == [min(span) if span else None for span in spans]
        assert data["greatest"] == [max(span) if span else None for span in spans]
    else:
        assert list(data) == ["mean"]


@given(values, st.sampled_from([1, 2, 4]))
def test_points_taken_together_are_the_same_as_wider_points(found: list[int | None], merged: int) -> None:
    points, series = charted(found)
    data = series.merged(merged).to_json(-(-len(points) // merged))
    spans = [[v for v in found[start : start + merged] if v is not None] for start in range(0, len(found), merged)]
    assert data.get("greatest", data["mean"]) == [max(span) if span else None for span in spans]
    assert len(points.to_json(merged)["batches"]) == len(spans)  # type: ignore[arg-type]


def test_a_series_that_begins_late_or_ends_early_has_gaps() -> None:
    series = Series()
    series.put(2, 5.0)
    assert series.to_json(4) == {"mean": [None, None, 5, None]}


def test_figures_are_rounded_to_what_a_chart_can_show() -> None:
    series = Series()
    for point, value in enumerate([1 / 3, 1234567.0, 1e-9, 1e300]):
        series.put(point, value)
    assert series.to_json(4) == {"mean": [0.333333, 1234570, 1e-09, 1e300]}
