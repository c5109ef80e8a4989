"""The trace's page in a headless Chromium: what it draws, how it is reached by keyboard, phones, paper, the dark, and a running job."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from spark.command import Command, lines
from spark.small_world import MET, STREAM, Files, write_query, write_world
from trace_cases import EVIL, flapping

from cqels_opt.trace.live import LiveTrace
from cqels_opt.trace.page import trace_page
from cqels_opt.trace.page_on_request import PageServer
from cqels_opt.trace.records import Called, Delta, Moved, OperatorRecord, StoreVersions, TraceRecord, read_trace
from cqels_opt.trace.server import served

FIXTURE = Path(__file__).parents[1] / "trace" / "q2.jsonl"
DESK = {"width": 1200, "height": 900}


@contextmanager
def opened(browser: Browser, address: str, **context: object) -> Iterator[Page]:
    """A page that may log nothing, ask for nothing from elsewhere, and have no error."""
    with browser.new_context(**{"viewport": DESK, **context}) as made:  # type: ignore[arg-type]
        page, wrong = made.new_page(), list[str]()
        page.on("console", lambda message: wrong.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: wrong.append(f"error: {error.message}"))
        page.on("dialog", lambda dialog: wrong.append("a dialog"))
        page.on("request", lambda asked: wrong.append(asked.url) if not asked.url.startswith(address) else None)
        page.goto(address)
        yield page
        assert wrong == []


@pytest.fixture
def written(tmp_path: Path) -> Callable[[list[TraceRecord]], str]:
    """The address of the page of a trace."""

    def write(records: list[TraceRecord]) -> str:
        file = tmp_path / "page.html"
        file.write_text(trace_page(records, "q2.jsonl"), encoding="utf-8")
        return file.as_uri()

    return write


@pytest.fixture
def q2(written: Callable[[list[TraceRecord]], str]) -> str:
    return written(list(read_trace(FIXTURE)))


def test_versions_of_the_static_data_are_drawn(browser: Browser, written: Callable[[list[TraceRecord]], str]) -> None:
    """A mark where a version began, below the bands, and a row of the table; a trace without any has neither."""
    records = flapping(10)
    with opened(browser, written(records)) as page:
        assert page.locator(".versions").count() == 0 and "Static data" not in page.locator("main").inner_text()
    records[5] = replace(records[5], static=StoreVersions(4, 2))
    with opened(browser, written(records)) as page:
        mark = page.locator(".versions .mark")
        assert mark.inner_text() == "◆" and mark.get_attribute("style") == "left: 50%;"
        assert "batch 5, " in (mark.get_attribute("title") or "")
        rows = page.get_by_role("region", name="versions of the static data").locator("tbody tr").all_inner_texts()
        assert [row.split("\t")[0] + row.split("\t", 2)[2] for row in rows] == ["54\t2"]


def test_everything_is_drawn(browser: Browser, q2: str) -> None:
    with opened(browser, q2) as page:
        assert page.title() == "q2.jsonl"
        assert page.locator(".source").count() == 2
        assert page.locator(".reign").all_inner_texts() == ["A", "B", "A", "A"]
        assert page.locator(".headline").inner_text() == "Adapting saved an estimated 36 % of the cost of the first plan."
        assert page.locator("figcaption").all_inner_texts() == [
            "Saved over the first plan, of a batch estimated; below 0: cost more",
            "Cost of the plans of lsnow",
            "Cost of the plans of ls30",
            "Time of a batch by phase",
            "Rows in the windows logarithmic",
            "Lag newest time of the input minus the frontier",
            "lsnow » ls30 rows",
            "ls30 » ls30 rows",
        ]
        assert page.locator("figure canvas").count() == page.locator("figure").count() == 8
        page.get_by_text("Charts of 3 other relations").click()
        page.get_by_text("Elements of a batch, Late and rejected elements of a batch, Batches or files waiting").click()
        expect(page.locator("figure canvas")).to_have_count(14)
        assert page.locator("#switches tbody tr").count() == 2
        assert "rows of lsnow joined with ls30 on ?loc: 320 → 87,000" in page.locator("#switches").inner_text()
        assert page.locator("#panel svg text").filter(has_text="coauthor").count() == 2
        assert "greedy order: more than 10000 pairs" in page.locator("#head").inner_text()
        painted = "c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some(x => x)"
        drawn = page.evaluate(f"[...document.querySelectorAll('canvas')].map(c => {painted})")
        assert all(drawn)


def test_the_keyboard_reaches_switches_reasons_and_trees(browser: Browser, q2: str) -> None:
    with opened(browser, q2) as page:
        marks = page.locator(".mark")
        assert [mark.get_attribute("tabindex") for mark in marks.all()] == ["0", "-1"]
        marks.first.focus()
        expect(page.locator("#tip")).to_contain_text("rows of ls30: 1,500 → 150,000")
        page.keyboard.press("ArrowRight")
        expect(page.locator("#tip")).to_contain_text("selectivity of FILTER(?person1 != ?person2): unknown → 0.98")
        page.keyboard.press("Enter")
        panel = page.locator("#panel")
        expect(panel).to_contain_text("batch 9")
        assert panel.locator("svg").count() == 2
        panel.get_by_role("button", name="earlier").press("Enter")
        expect(panel).to_contain_text("batch 4")
        expect(panel.get_by_role("button", name="earlier")).to_be_disabled()
        expect(page.locator("#tip")).to_be_hidden()
        chart = page.locator("figure").first
        chart.focus()
        page.keyboard.press("ArrowRight")
        expect(chart.locator(".u-legend")).to_contain_text("0 · 00:00:00")


def test_the_mouse_shows_reasons_and_looks_closer(browser: Browser, q2: str) -> None:
    with opened(browser, q2) as page:
        page.locator(".mark").first.hover()
        expect(page.locator("#tip")).to_contain_text("rows of lsnow joined with ls30 on ?loc: 320 → 87,000")
        page.locator("figure").first.scroll_into_view_if_needed()
        box = page.locator("figure .u-over").first.bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + box["width"] * 0.35, box["y"] + 20)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 30, steps=5)
        page.mouse.up()
        assert (page.locator("#from").input_value(), page.locator("#to").input_value()) == ("4", "8")
        assert page.locator(".reign").all_inner_texts()[0] == "B"
        page.locator("#all").click()
        assert page.locator("#to").input_value() == "13"
        page.get_by_role("button", name="trees").first.click()  # the switch that saved most
        expect(page.locator("#panel")).to_contain_text("batch 9")


@pytest.mark.parametrize("width", [360, 1400])
def test_no_join_of_a_tree_is_hidden(browser: Browser, written: Callable[[list[TraceRecord]], str], width: int) -> None:
    """Trees of ten joins and three sources: each is as wide as its column, or scrolls in it, and differences are highlighted."""
    relations = [f"a_relation_with_a_long_name#{number}" for number in range(10)]
    orders = relations, [*reversed(relations)]
    plans = [f"w » {' » '.join(f'{name}[?x]' for name in order)}" for order in orders]
    deltas = [
        (Delta("w", plan, 1.0, switched=number > 0), Delta("v", plan.replace("w", "v", 1)), Delta("u", plan.replace("w", "u", 1)))
        for number, plan in enumerate(plans)
    ]
    records = [TraceRecord(n, "q", (n, n), n, 1, deltas=found) for n, found in enumerate(deltas)]
    with opened(browser, written(records), viewport={"width": width, "height": 900}) as page:
        sizes = "[...document.querySelectorAll('.tree')].map(t => [t.clientWidth, t.querySelector('svg').clientWidth])"
        if width > 1000:
            assert (trees := page.evaluate(sizes)) and all(drawn <= room for room, drawn in trees)
        page.locator(".mark").first.click()
        expect(page.locator("#panel")).to_contain_text("9 joins of 10 in the new plan are not in the old one")
        assert page.locator("#panel circle.differs").count() == 18
        if width > 1000:
            assert (trees := page.evaluate(sizes)) and all(drawn <= room for room, drawn in trees)
        assert page.evaluate("document.documentElement.scrollWidth") == width


@pytest.mark.parametrize("width", [360, 1400])
def test_all_figures_of_a_tree_are_within_it(browser: Browser, q2: str, width: int) -> None:
    """Also the rows of the last join, whose line is short, and above the first relation; the table below has its last column."""
    with opened(browser, q2, viewport={"width": width, "height": 900}) as page:
        page.locator(".mark").first.click()
        expect(page.locator("#panel svg")).to_have_count(2)
        beyond = """[...document.querySelectorAll("#panel svg")].flatMap(svg => [...svg.querySelectorAll("text")].filter(text => {
            const box = text.getBBox(), view = svg.viewBox.baseVal;
            return box.x < 0 || box.y < 0 || box.x + box.width > view.width || box.y + box.height > view.height;
        }).map(text => text.textContent))"""
        assert page.evaluate(beyond) == []
        page.get_by_text("operators in the order they ran").first.click()
        table = page.locator("#panel .scroll").first
        if width > 1000:
            assert table.evaluate("one => one.scrollWidth <= one.clientWidth")


def test_axes_of_three_days(browser: Browser, written: Callable[[list[TraceRecord]], str]) -> None:
    """The axis has dates; a chart in which all values are 0 is left out; two traces share a page."""
    records = [replace(one, time_range=(n * 3_600_000, n * 3_600_000), rejected=0) for n, one in enumerate(flapping(72))]
    with opened(browser, written(records)) as page:
        labels = page.locator("#bands .axis span").all_inner_texts()
        assert (labels[0], labels[-1]) == ("0 · 01-01 00:00", "71 · 01-03 23:00")
        assert "Late and rejected" not in page.locator("main").inner_text()
        tenth = "[0, 59e3, 5400e3, 777e4, 9e7].map(duration).concat([0, 5400e3, 9e4, 0.05].map(shortDuration))"
        found = ["0 ms", "59.0 s", "1 h 30 min", "2 h 09 min", "1 d 01 h", "0", "1.5 h", "1.5 min", "50 µs"]
        assert page.evaluate(tenth) == found
        assert page.evaluate("[2e-4, 1.5e-4, 1e-4, 5e-5].map(compact)") == ["2e-4", "1.5e-4", "1e-4", "5e-5"]


def test_two_traces_on_one_page(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(trace_page(flapping(20), "a.jsonl", (flapping(40, 40), "b.jsonl")), encoding="utf-8")
    with opened(browser, file.as_uri()) as page:
        compared = page.locator("#compared")
        expect(compared).to_contain_text("“a.jsonl” has 20 batches, “b.jsonl” 40: compare medians, not sums.")
        expect(compared).to_contain_text("Both ran the same plan in 50 % of the batches")
        assert page.locator("#comparedCharts canvas").count() == 1


def test_queries_of_one_run_are_listed_by_their_joins(browser: Browser, written: Callable[[list[TraceRecord]], str]) -> None:
    """The phases of a batch are common to them, so the time of batches does not tell them apart."""
    delta = Delta("w", "w » a[?x]", 1.0, operators=(OperatorRecord("scan", "w", (), 1.0, 1, None, 250.0),))
    quick = replace(delta, operators=(replace(delta.operators[0], ms=1.0),))
    records = [replace(flapping(1)[0], query=name, deltas=(one,)) for name, one in (("quick", quick), ("slow", delta))]
    with opened(browser, written(records)) as page:
        queries = page.get_by_role("region", name="queries")
        assert queries.locator("th").all_inner_texts()[3] == "joins"
        assert [row.split("\t")[0::3] for row in queries.locator("tbody tr").all_inner_texts()] == [
            ["slow", "250 ms"],
            ["quick", "1 ms"],
        ]


def test_the_axis_names_each_batch_once(browser: Browser, written: Callable[[list[TraceRecord]], str]) -> None:
    for batches in (1, 3):
        with opened(browser, written(flapping(batches))) as page:
            places = page.locator(".axis span").all_inner_texts()
            assert [place.split(" · ")[0] for place in places] == [str(number) for number in range(batches)]


def test_a_value_between_gaps_is_a_point(browser: Browser, q2: str) -> None:
    line = "{label: 'a', colour: 'p0', values: {mean: [1, 1, null, 7, null, null, 2]}}"
    query = "{...page.query, points: {width: 1, batches: [0, 1, 2, 3, 4, 5, 6]}}"
    points = f"prepared({query}, {{lines: [{line}], format: figure}}).series[1].points"
    with opened(browser, q2) as page:
        assert page.evaluate(f"{points}.filter(null, 1, false)") == [3, 6]
        assert page.evaluate(f"{points}.filter(null, 1, true)") is None, "all values have points"


@pytest.mark.parametrize("width", [320, 360, 768])
def test_nothing_is_wider_than_a_small_screen(browser: Browser, q2: str, width: int) -> None:
    with opened(browser, q2, viewport={"width": width, "height": 740}, has_touch=True) as page:
        page.get_by_role("button", name="trees").first.click()
        assert page.evaluate("document.documentElement.scrollWidth") == width


def test_dark_and_paper(browser: Browser, q2: str, tmp_path: Path) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    axis = "document.querySelector('canvas').getContext('2d').getImageData(0, 0, 60, 190).data"
    with opened(browser, q2, color_scheme="dark") as page:
        assert page.evaluate(ground) == "rgb(13, 17, 23)"
        assert page.evaluate(f"Math.max(...{axis}.filter((_, at) => at % 4 === 0))") > 200  # the axis is light
        page.emulate_media(color_scheme="light")
        assert page.evaluate(ground) == "rgb(255, 255, 255)"
        page.emulate_media(color_scheme="dark", media="print")
        assert page.evaluate(ground) == "rgb(255, 255, 255)"
        page.pdf(path=tmp_path / "page.pdf", format="A4")
        assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")
        page.emulate_media(color_scheme="dark", media="screen")
        assert page.evaluate(ground) == "rgb(13, 17, 23)"


def test_charts_use_the_width_of_the_sheet(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(trace_page(flapping(20), "a.jsonl", (flapping(20), "b.jsonl")), encoding="utf-8")
    with opened(browser, file.as_uri(), viewport={"width": 690, "height": 900}) as page:
        page.emulate_media(media="print")
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        width = "box => box.getBoundingClientRect().width"
        sheet = page.locator("main").evaluate(width)
        alone = page.locator("#comparedCharts .uplot").first.evaluate(width)
        beside = page.locator("#costs .charts:has(figure + figure) .uplot").first.evaluate(width)
        assert alone > 0.9 * sheet
        assert 0.4 * sheet < beside < 0.5 * sheet


def test_text_of_a_trace_stays_text(browser: Browser, written: Callable[[list[TraceRecord]], str]) -> None:
    evil = EVIL + "<img src=x onerror=alert(1)>"
    record = TraceRecord(0, evil, (0, 1), 1, 1, windows={evil: 1}, fallback=evil)
    operators = (OperatorRecord(evil, evil, (evil,), 1.0, 2),)
    deltas = [
        Delta(evil, plan, 1.0, switched=True, reason=(Moved(evil, None, 1.0),), operators=operators) for plan in (evil, "b")
    ]
    calls = (Called(evil, 10, 4, 4, 1, 0.5),)
    found = [replace(record, batch=n, deltas=(delta,), calls=calls) for n, delta in enumerate(deltas)]
    with opened(browser, written(found)) as page:
        page.locator(".mark").click()
        assert evil in page.locator("#switches").inner_text()
        assert [evil, "20", "8", "25 %"] == page.locator("[aria-label='calls of extension functions'] td").all_inner_texts()[:4]
        assert page.locator("img").count() == 0


def test_an_empty_trace_says_so(browser: Browser, written: Callable[[list[TraceRecord]], str]) -> None:
    with opened(browser, written([])) as page:
        expect(page.locator("main")).to_contain_text("no micro-batch was recorded")


def test_a_long_trace_stays_quick_to_draw(browser: Browser, written: Callable[[list[TraceRecord]], str]) -> None:
    """A hundred thousand batches, with a switch in every second one, are no more elements than a screen can show."""
    with opened(browser, written(flapping(100_000))) as page:
        assert page.locator(".mark").count() < 120
        assert page.evaluate("document.querySelectorAll('*').length") < 3000
        expect(page.locator("#switches h2")).to_have_text("49,999 plan switches")
        expect(page.locator("#head")).to_contain_text("9.0 s (777)")
        page.locator("#from").fill("40000")
        page.locator("#to").fill("40010")
        page.get_by_role("button", name="zoom in").click()
        assert page.locator(".reign").all_inner_texts() == ["A", "B"] * 2 + ["A"]
        line = "batch 40002, 1970-01-01 00:00:40.002, delta w: A → B, cost 2 → 1"
        expect(page.locator(".mark").nth(1)).to_have_attribute("aria-label", line)


def test_one_of_several_queries_is_chosen(browser: Browser, written: Callable[[list[TraceRecord]], str]) -> None:
    records = [replace(record, query=name) for record in read_trace(FIXTURE) for name in ("q2", "<other>")]
    address = written([*records, replace(records[0], query="short")])
    with opened(browser, address) as page:
        page.get_by_label("Query").select_option("short")
        expect(page.locator("dl.tiles div").first).to_have_text("batches1")
        page.get_by_label("Query").select_option("<other>")
        expect(page.locator("dl.tiles div").first).to_have_text("batches13")
        page.reload()
        assert page.locator("#query option:checked").inner_text() == "<other>"


def test_an_address_with_a_malformed_query_opens_the_first_one(browser: Browser, q2: str) -> None:
    with opened(browser, q2) as page:
        page.evaluate("location.hash = 'query=%'")
        page.reload()
        expect(page.locator("dl.tiles div").first).to_have_text("batches13")


def test_the_page_of_a_running_job_keeps_its_query_when_it_is_loaded_again(browser: Browser) -> None:
    records = list(read_trace(FIXTURE))
    trace = LiveTrace("q2.rq")
    with served(trace, "127.0.0.1", 0) as address, opened(browser, address) as page:
        trace.add([records[0], replace(records[0], query="other")])
        page.get_by_label("Query").select_option("other")
        page.reload()
        expect(page.locator("dl.tiles div").first).to_have_text("batches1")
        assert page.locator("#query option:checked").inner_text() == "other"


def test_the_page_of_a_running_job_follows_it(browser: Browser) -> None:
    records = list(read_trace(FIXTURE))
    trace = LiveTrace("q2.rq")
    with served(trace, "127.0.0.1", 0) as address, opened(browser, address) as page:
        expect(page.locator("#live")).to_have_text("live, before the first batch")
        trace.add(records[:1])
        expect(page.locator("#live")).to_have_text("live, after batch 0")
        expect(page.locator("dl.tiles div").first).to_have_text("batches1")
        for record in records[1:10]:
            trace.add([record])
        expect(page.locator("dl.tiles div").first).to_have_text("batches10")
        page.locator(".mark").first.click()
        trace.add([records[10], replace(records[10], query="another")])
        expect(page.locator("dl.tiles div").first).to_have_text("batches11")
        expect(page.locator("#panel")).to_contain_text("batch 4")  # what was picked stays
        page.get_by_label("Query").select_option("another")
        expect(page.locator("dl.tiles div").first).to_have_text("batches1")
        trace.end()
        expect(page.locator("#live")).to_have_text("the run has ended")


def _page_of(run: Command) -> str:
    """The address that it prints."""
    run.until(lambda: bool(re.search("^page: .*\n", run.err(), re.M)))
    return run.err().partition("page: ")[2].splitlines()[0]


def test_a_job_that_is_killed_and_goes_on(browser: Browser, tmp_path: Path) -> None:
    """`run --ui`, killed in the middle and begun again: the second page knows what the first job did."""
    files: Files = write_world(tmp_path / "world", elements=60)
    query = write_query(tmp_path, MET)
    trace, words = tmp_path / "t.jsonl", ["run", str(query), "--stream", STREAM, str(files.stream), "--static", str(files.static)]
    words += ["--graph", "http://ex.org/map", str(files.places), "--batch", "5", "--checkpoint", str(tmp_path / "state")]
    words += ["--trace", str(trace), "--out", str(tmp_path / "out.jsonl"), "--ui", "0"]
    killed = Command(words)
    with opened(browser, _page_of(killed)) as page:
        expect(page.locator("#live")).to_contain_text("live, after batch", timeout=120_000)
        killed.until(lambda: lines(trace) >= 4)
    killed.kill()
    again = Command(words)
    with opened(browser, _page_of(again)) as page:
        expect(page.locator("#live")).to_have_text("the run has ended", timeout=120_000)
        batches = [json.loads(line)["batch"] for line in trace.read_text().splitlines()]
        assert batches == sorted(set(batches))
        expect(page.locator("dl.tiles div").first).to_have_text(f"batches{len(batches)}")
    assert again.finish().code == 0


def test_a_page_made_on_request_runs_the_script_next_to_it(browser: Browser, tmp_path: Path) -> None:
    """As Spark's UI forwards to it: its policy allows the script, and a reload shows later batches."""
    trace, ended = tmp_path / "t.jsonl", threading.Event()
    records = flapping(4)
    trace.write_text("".join(record.line() for record in records[:2]), encoding="utf-8")
    with PageServer(trace) as server:
        thread = threading.Thread(target=server.answer_while, args=(lambda: not ended.is_set(),))
        thread.start()
        with opened(browser, f"{server.address}/") as page:
            expect(page.locator(".reign")).to_have_text(["A"])
            trace.write_text("".join(record.line() for record in records), encoding="utf-8")
            page.reload()
            expect(page.locator(".reign")).to_have_text(["A", "B"])
        ended.set()
        thread.join()
