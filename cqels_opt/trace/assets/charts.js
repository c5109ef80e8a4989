// Line charts over the batches, by uPlot. Charts of a page share the cursor and the part of the time line that is looked at.

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const faint = (hex, share) => `${hex}${Math.round(share * 255).toString(16).padStart(2, "0")}`;
const last = (values) => values.findLast((value) => value !== null) ?? null;

/** The places of a query's points on the axis of its records. */
function places(query) {
  const { width, batches } = query.points;
  return batches.map((_, point) => Math.min(point * width + (width - 1) / 2, query.batches - 1));
}

/** What uPlot draws: the lines' means, with bands from least to greatest where values share a point; or areas on top of each other. */
function prepared(query, spec) {
  const data = [places(query)], end = data[0].length - 1, bands = []; // where the cursor is in no chart, the legend has the last values
  const series = [{ label: "batch", value: (_, record) => placeOf(query, record ?? data[0][end]) }];
  const fit = spec.log ? (values) => values.map((v) => (v === null ? null : Math.max(v, spec.log))) : (values) => values;
  let below = null;
  for (const line of spec.lines) {
    const stroke = colour(line.colour), raw = (line.peaks && line.values.greatest) || line.values.mean;
    const single = raw.flatMap((value, at) => (value !== null && (raw[at - 1] ?? null) === null && (raw[at + 1] ?? null) === null ? [at] : []));
    const points = { filter: (_, s, all) => (all || !single.length ? null : single) }; // a value between gaps is no line
    const shown = { label: line.label, stroke, width: line.width ?? 1.5, dash: line.dash, points, value: (_, v, s, at) => spec.format(raw[at ?? end]) };
    if (spec.stacked) {
      below = raw.map((value, at) => (value === null && below === null ? null : (value ?? 0) + (below ? below[at] ?? 0 : 0)));
      data.push(below);
      series.push({ ...shown, width: 0.7, fill: series.length === 1 ? faint(stroke, 0.6) : undefined, points: { show: false } });
      if (series.length > 2) bands.push({ series: [series.length - 1, series.length - 2], fill: faint(stroke, 0.6) });
      continue;
    }
    data.push(fit(raw));
    series.push(shown);
    if (line.values.greatest && !line.plain && !line.peaks) {
      data.push(fit(line.values.greatest), fit(line.values.least));
      for (const label of ["greatest", "least"]) series.push({ label, class: "unlisted", stroke: faint(stroke, 0.25), width: 0.5, points: { show: false } });
      bands.push({ series: [series.length - 2, series.length - 1], fill: faint(stroke, 0.18) });
    }
  }
  for (const line of spec.over ?? []) {
    data.push(line.values);
    series.push({ label: line.label, stroke: colour(line.colour), width: 1, points: { show: false }, value: (_, v, s, at) => spec.format(line.values[at ?? end]) });
  }
  return { data, series, bands };
}

/** A chart as a figure. `page` has the query, the view, what to do with a range that was dragged, and the scale (2: for paper). */
function drawChart(page, spec) {
  const { query, scale } = page, ink = colour("ink"), grid = { stroke: faint(colour("dim"), 0.25), width: scale };
  const font = `${11 * scale}px system-ui, sans-serif`;
  const axis = { stroke: ink, font, grid, ticks: { ...grid, size: 4 * scale }, gap: 3 * scale };
  const { data, series, bands } = prepared(query, spec);
  for (const one of series) if (one.width) one.width *= scale;
  const figureBox = element("figure", { tabindex: 0, "aria-label": `${spec.title}. ${inWords(query, spec)} Arrow keys move the cursor.` },
    element("figcaption", {}, spec.title, spec.note ? element("span", { class: "dim" }, ` ${spec.note}`) : null));
  const left = page.left * scale;
  let chart = null;
  figureBox.draw = (width) => {
    chart?.destroy();
    chart = new uPlot({
      width, height: (page.small ? 150 : 190) * scale, series, bands, padding: [8 * scale, page.right * scale, 0, 0],
      legend: { markers: { width: 0, fill: (u, at) => u.series[at].stroke() } },
      scales: { x: { time: false, range: () => [page.view.from - 0.5, page.view.to - 0.5] }, y: scaleOf(spec, data) },
      axes: [
        { ...axis, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6], space: 90 * scale, size: 38 * scale,
          values: (_, at) => at.map((record) => (record < 0 || record >= query.batches ? "" : placeOf(query, record).replace(" · ", "\n"))) },
        { ...axis, size: left, ...(spec.time && !spec.log ? { incrs: TIME_STEPS } : {}), grid: { ...grid, ...(spec.log ? { filter: powersOfTen } : {}) }, values: (_, at) => at.map((value) => (value === null ? "" : (spec.time ? shortDuration : compact)(value))) },
      ],
      cursor: { sync: { key: "batches", setSeries: false }, drag: { x: true, y: false, setScale: false }, points: { size: 6 } },
      hooks: { setSelect: [(u) => {
        if (u.select.width < 4) return;
        const range = [u.select.left, u.select.left + u.select.width].map((at) => u.posToVal(at, "x"));
        u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        page.look(range[0] + 0.5, range[1] + 0.5);
      }] },
    }, data, figureBox);
    chart.root.querySelector("canvas").setAttribute("aria-hidden", "true");
  };
  let at = null;
  figureBox.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, Home: -data[0].length, End: data[0].length }[event.key];
    if (step === undefined || !chart) return;
    at = Math.max(0, Math.min(data[0].length - 1, (at ?? (step > 0 ? -1 : data[0].length)) + step));
    chart.setCursor({ left: chart.valToPos(data[0][at], "x"), top: 10 });
    event.preventDefault();
  });
  figureBox.look = () => chart?.setScale("x", { min: page.view.from - 0.5, max: page.view.to - 0.5 });
  figureBox.end = () => chart?.destroy();
  return figureBox;
}

function powersOfTen(_, values) {
  return values.map((value) => (value > 0 && Number.isInteger(Number(Math.log10(value).toFixed(9))) ? value : null));
}

/** Distances of ticks on an axis of times, in milliseconds. */
const TIME_STEPS = [1e-6, 1e-3, 1].flatMap((unit) => [1, 2, 5, 10, 20, 50, 100, 200, 500].map((step) => step * unit))
  .concat([1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200].map((step) => step * 1000), [1, 2, 5, 10, 20, 50, 100, 200, 500].map((step) => step * DAY));

/** From 0, or the least value below it, to a little above the greatest value; on a logarithmic scale whole powers of ten. */
function scaleOf(spec, data) {
  const greatest = Math.max(...data.slice(1).flatMap((values) => values.reduce((most, value) => Math.max(most, value ?? 0), 0)));
  const lowest = data.slice(1).reduce((least, values) => values.reduce((low, value) => Math.min(low, value ?? 0), least), 0);
  if (!spec.log) return { range: [lowest * 1.06, greatest > 0 || lowest < 0 ? greatest * 1.06 : 1] };
  const least = Math.min(...data.slice(1).flatMap((values) => values.reduce((most, value) => Math.min(most, value ?? Infinity), Infinity)));
  const [low, high] = [Math.floor(Math.log10(Number.isFinite(least) ? least : 1)), Math.ceil(Math.log10(Math.max(greatest, spec.log)))];
  return { distr: 3, range: [10 ** low, 10 ** Math.max(high, low + 1)] };
}

function inWords(query, spec) {
  return spec.lines.slice(0, 6).map((line) => {
    const values = (line.values.greatest ?? line.values.mean).filter((value) => value !== null);
    const most = values.reduce((a, b) => Math.max(a, b), -Infinity);
    return values.length ? `${line.label}: at most ${spec.format(most)}, ${spec.format(last(line.values.mean))} at the end.` : `${line.label}: not known.`;
  }).join(" ");
}

// ------------------------------------------------------------------ which charts a query has
const PHASES = [["ingest", "p0"], ["statistics", "p3"], ["optimize", "p5"], ["execute", "p2"], ["sink", "p4"], ["commit", "p6"]];

function seriesOf(values, colours = ["p0", "p1", "p2", "p5", "p3", "p4", "p6"]) {
  return Object.entries(values).map(([label, found], number) => ({ label, values: found, colour: colours[number % colours.length] }));
}

const MOST_LINES = 6; // plans in a chart of costs: more cannot be told apart

/** The lines of a source's most used plans in their colours, and that of the cheapest plan not chosen. */
function costLines(query, source) {
  const most = source.plans.map((_, place) => place).sort((a, b) => source.plans[b].batches - source.plans[a].batches).slice(0, MOST_LINES).sort((a, b) => a - b);
  const lines = most.flatMap((place) => {
    const plan = source.plans[place], values = source.costs[plan.plan];
    return values ? [{ label: plan.letter, values: inUnit(query, values), colour: `p${place % COLOURS}`, dash: DASHES[Math.floor(place / COLOURS) % 3], width: 2 }] : [];
  });
  return [...lines, { label: "cheapest not chosen", values: inUnit(query, source.runner_up), colour: "ink", dash: [4, 4], width: 1, plain: true }]
    .filter((line) => last(line.values.mean) !== null);
}

/** Costs as milliseconds if they are seconds. */
function inUnit(query, values) {
  if (query.savings.unit !== "s") return values;
  return Object.fromEntries(Object.entries(values).map(([name, list]) => [name, list.map((value) => (value === null ? null : 1000 * value))]));
}

/** Whether values differ so much that only their powers of ten can be shown; then the least one above 0. */
function logarithmic(lines) {
  const values = lines.flatMap((line) => [...(line.values.least ?? line.values.mean), ...(line.values.greatest ?? [])]).filter((value) => value > 0);
  const [least, greatest] = values.reduce(([a, b], value) => [Math.min(a, value), Math.max(b, value)], [Infinity, 0]);
  return greatest > 30 * least ? least : 0;
}

function batchCharts(query) {
  const slowest = query.points.width > 1 && query.batch.ms?.greatest ? [{ label: "slowest", values: query.batch.ms.greatest, colour: "ink" }] : [];
  const charts = [{ title: "Time of a batch by phase", note: query.alone ? "" : "of all queries", stacked: true, over: slowest, format: duration, time: true,
    lines: PHASES.filter(([phase]) => hasValues(query.phases[phase])).map(([phase, colour]) => ({ label: phase, values: query.phases[phase], colour })) }];
  if (Object.values(query.windows).some(hasValues)) {
    const all = seriesOf(query.windows), lines = all.filter((line) => hasValues(line.values)).slice(0, COLOURS);
    const log = logarithmic(lines) ? 1 : 0;
    charts.push({ title: "Rows in the windows", note: [lines.length < all.length ? `${lines.length} of ${all.length}` : "", log ? "logarithmic" : ""].filter(Boolean).join(", "), format: figure, lines, log });
  }
  const { elements, late, rejected, lag, waiting, recomputed } = query.batch;
  if (hasValues(lag)) charts.push({ title: "Lag", note: "newest time of the input minus the frontier", format: duration, time: true, lines: seriesOf({ lag }, ["p5"]) });
  if (hasValues(elements)) charts.push({ title: "Elements of a batch", format: figure, lines: seriesOf({ elements }, ["p0"]) });
  if (hasValues(late) || hasValues(rejected)) charts.push({ title: "Late and rejected elements of a batch", format: figure, note: query.points.width > 1 ? "greatest of each point" : "",
    lines: seriesOf({ late, rejected }, ["p1", "p3"]).map((line) => ({ ...line, peaks: true })) });
  if (hasValues(waiting)) charts.push({ title: "Batches or files waiting", format: figure, lines: seriesOf({ waiting }, ["p4"]) });
  if (hasValues(recomputed)) charts.push({ title: "Rows given to the operators above the joins", format: figure, lines: seriesOf({ recomputed }, ["p2"]) });
  return charts;
}

/** Whether a series has a value other than 0: a flat line at 0 needs no chart. */
function hasValues(values) {
  return values !== undefined && (values.greatest ?? values.mean).concat(values.least ?? []).some((value) => value !== null && value !== 0);
}

function costCharts(query) {
  const seconds = query.savings.unit === "s", format = seconds ? duration : figure;
  const charts = query.sources.map((source) => ({ source, lines: costLines(query, source) })).filter(({ lines }) => lines.length).map(({ source, lines }) => {
    const some = source.plans.length > MOST_LINES ? `${MOST_LINES} most used of ${source.plans.length}` : "";
    const log = logarithmic(lines);
    return { title: `Cost of the plans of ${source.source}`, note: [some, log ? "logarithmic" : ""].filter(Boolean).join(", "), format, time: seconds, lines, log };
  });
  const { saved } = query.batch;
  if (hasValues(saved)) charts.unshift({ title: "Saved over the first plan, of a batch", note: "estimated; below 0: cost more", format, time: seconds, lines: [{ label: "saved", values: inUnit(query, saved), colour: "p2" }] });
  return charts;
}

/** Estimated and observed rows of every relation of every source, worst estimates first. */
function rowCharts(query) {
  const worst = Object.fromEntries(query.estimates.map(({ relation, p95 }) => [relation, p95]));
  return query.sources.flatMap((source) => Object.keys(source.observed).map((name) => ({ source, name, q: worst[name.replace(/ \(\d+\)$/, "")] ?? 0 })))
    .sort((a, b) => b.q - a.q)
    .map(({ source, name, q }) => {
      const lines = [
        { label: "observed", values: source.observed[name], colour: "p2", width: 2 },
        ...(source.estimated[name] ? [{ label: "estimated", values: source.estimated[name], colour: "p1", dash: [5, 4], plain: true }] : []),
      ];
      const log = logarithmic(lines) ? 1 : 0;
      return { q, title: `${source.source} » ${name}`, note: log ? "rows, logarithmic" : "rows", format: figure, lines, log };
    });
}
