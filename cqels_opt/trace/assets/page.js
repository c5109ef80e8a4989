// The page: which query, which part of its time, which switch; and the next batch of a running job.

const page = { query: null, view: { from: 0, to: 1 }, whole: true, picked: null, shown: AT_ONCE, charts: [], scale: 1, left: 60, right: 14, names: [] };
const data = JSON.parse(document.getElementById("data").textContent);
const PAPER = 690; // pixels that a sheet of A4 has between its margins
const main = document.getElementById("main");
const parts = Object.fromEntries(["index", "head", "compared", "comparedCharts", "bands", "panel", "costs", "switches", "plans", "time", "rows", "tables"].map((name) => [name, element("div", { id: name })]));
const narrow = matchMedia("(max-width: 40rem)");

function lay() {
  const number = (id, label) => [element("label", { for: id }, label), element("input", { id, type: "number", min: 0 })];
  const range = element("form", { class: "range", onsubmit: (event) => { event.preventDefault(); fromInputs(); } },
    number("from", "records from"), number("to", "to"), element("button", {}, "zoom in"),
    element("button", { type: "button", id: "all", onclick: () => look(0, page.query.batches) }, "all"));
  main.replaceChildren(parts.head, parts.index, parts.compared, parts.comparedCharts, element("h2", {}, "Plans over time"),
    element("p", { class: "dim" }, "Each band is a delta source, coloured by its plan. ▽ is a switch: point at it for the reason, press it for both plans as trees. ◆ is the first batch with another version of the static data. Drag over a chart to zoom in."),
    range, parts.bands, parts.panel, parts.switches, element("h2", {}, "Costs of the plans"), parts.costs, parts.plans,
    element("h2", {}, "Batches"), parts.time, element("h2", {}, "Estimated and observed rows"), parts.rows, parts.tables,
    element("div", { id: "tip", role: "tooltip", hidden: true }));
}

// ------------------------------------------------------------------ drawing
function drawAll() {
  const query = page.query;
  if (page.whole) page.view = { from: 0, to: Math.max(query.batches, 1) };
  page.small = page.scale === 1 && narrow.matches;
  [page.left, page.right] = page.scale > 1 ? [56, 10] : page.small ? [46, 8] : [60, 14];
  const focused = document.activeElement?.dataset?.key;
  parts.head.replaceChildren(...[...headline(query), tiles(query), ...notes(query), queryText(query)].filter(Boolean));
  const entries = page.index ?? data.queries.map(indexEntry);
  parts.index.replaceChildren(...(entries.length > 1 ? indexTable(entries, query.query, choose) : []).filter(Boolean));
  parts.compared.replaceChildren(...comparison(query));
  drawSwitches();
  parts.plans.replaceChildren(...query.sources.map((source) => folded(`plans of ${source.source}`, `${plural(source.plans.length, "plan")} of ${source.source}`, () => planTable(query, source))));
  parts.tables.replaceChildren(...estimateTable(query), ...aboveTable(query), ...slowTable(query), ...versionTable(query), ...subResults(query), ...callTable(query));
  drawTime();
  drawCharts();
  if (focused) document.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
}

function drawTime() {
  const pixels = (page.scale > 1 ? PAPER : parts.bands.clientWidth) - page.left - page.right;
  drawBands(parts.bands, page.query, page.view, Math.max(pixels, 120), page.picked?.one, pick);
  document.getElementById("from").value = Math.max(0, Math.floor(page.view.from));
  document.getElementById("to").value = Math.min(page.query.batches, Math.ceil(page.view.to));
  document.getElementById("all").disabled = page.whole;
}

function drawSwitches() {
  const room = page.scale > 1 ? PAPER - 60 : parts.panel.clientWidth - 40;
  const step = ({ source, one }) => pick(source, one);
  parts.panel.replaceChildren(page.picked ? switchPanel(page.query, page.picked, step, room) : currentPanel(page.query, room));
  parts.switches.replaceChildren(...switchTable(page.query, page.shown, (source, one, scroll) => (source ? pick(source, one, scroll) : more())).filter(Boolean));
}

function drawCharts() {
  for (const chart of page.charts) chart.end();
  Object.assign(page, { charts: [], drawn: false });
  const costs = costCharts(page.query), times = batchCharts(page.query);
  const rows = rowCharts(page.query), shown = rows.filter(({ q }) => q > GOOD).slice(0, MOST_ROWS), rest = rows.filter((spec) => !shown.includes(spec));
  for (const [part, specs] of [["comparedCharts", comparisonCharts(page.query)], ["costs", costs.slice(0, MOST_COSTS)], ["time", times.slice(0, MOST_TIMES)], ["rows", shown]]) {
    parts[part].replaceChildren(charts(specs));
  }
  if (times.length > MOST_TIMES) parts.time.append(folded("times", times.slice(MOST_TIMES).map((spec) => spec.title).join(", "), () => [charts(times.slice(MOST_TIMES))]));
  if (!costs.length) parts.costs.append(element("p", { class: "dim" }, "The trace has no costs of plans."));
  if (costs.length > MOST_COSTS) parts.costs.append(folded("costs", `Costs of the plans of ${plural(costs.length - MOST_COSTS, "other delta source")}`, () => [charts(costs.slice(MOST_COSTS))]));
  if (!shown.length) parts.rows.append(element("p", { class: "dim" }, rows.length ? `All estimates are within a factor of ${GOOD} (95 % of the batches).` : "Nothing is known."));
  if (rest.length) parts.rows.append(folded("rows", `Charts of ${plural(rest.length, shown.length ? "other relation" : "relation")}`, () => [charts(rest)]));
  page.drawn = true;
  for (const chart of page.charts) drawOne(chart);
}
const MOST_COSTS = 3, MOST_ROWS = 3, MOST_TIMES = 3; // charts that are shown before the others are folded
const GOOD = 2; // a q-error up to which an estimate needs no chart

/** Charts of the page; those of details that are opened later are drawn at once. */
function charts(specs) {
  const made = specs.map((spec) => drawChart(page, spec));
  page.charts.push(...made);
  if (page.drawn) requestAnimationFrame(() => made.forEach(drawOne));
  return element("div", { class: "charts" }, made);
}

/** On paper a chart has half of the sheet, or all of it where it is alone. */
function drawOne(chart) {
  const paper = chart.matches(":only-child") ? PAPER : PAPER / 2 - 15;
  chart.draw(page.scale > 1 ? paper * page.scale : chart.clientWidth);
}

/** Shows another query of the trace. */
function choose(name) {
  const at = page.names.indexOf(name);
  document.getElementById("query").value = at;
  chosen(at);
  document.getElementById("query").scrollIntoView({ block: "nearest" });
}

function chosen(at) {
  location.hash = `query=${encodeURIComponent(page.names[at])}`;
  if (data.live) refresh();
  else show(data.queries[at]);
}

// ------------------------------------------------------------------ what the reader does
/** Shows the records from `from` to `to` in the bands and in all charts. */
function look(from, to) {
  const { batches } = page.query;
  page.view = { from: Math.max(0, from), to: Math.min(batches, Math.max(to, from + 2)) };
  page.whole = page.view.from === 0 && page.view.to === batches;
  drawTime();
  for (const chart of page.charts) chart.look();
}
page.look = look;

function fromInputs() {
  look(document.getElementById("from").valueAsNumber || 0, document.getElementById("to").valueAsNumber || page.query.batches);
}

function pick(source, one, scroll = false) {
  page.picked = { source, one };
  hideTip();
  const focused = document.activeElement?.dataset?.key;
  drawSwitches();
  drawTime();
  if (focused && !scroll) document.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  if (scroll) parts.panel.scrollIntoView({ block: "nearest" });
}

function more() {
  page.shown += 200;
  drawSwitches();
}

/** Another state of the same query keeps what the reader looks at. */
function show(query) {
  const same = page.query?.query === query.query;
  const before = same ? page.picked : null;
  page.query = query;
  if (!same) Object.assign(page, { whole: true, shown: AT_ONCE });
  page.picked = before ? allSwitches(query).find(({ source, one }) => source.source === before.source.source && one.record === before.one.record) ?? null : null;
  drawAll();
}

function choices(names) {
  if (names.join("\n") === page.names.join("\n")) return;
  page.names = names;
  const select = document.getElementById("query"), chosen = select.value;
  select.replaceChildren(...names.map((name, at) => element("option", { value: at, selected: String(at) === chosen }, name)));
  document.getElementById("choice").hidden = names.length < 2;
}

/** The place of the query that the page's address names; 0 if it names none. */
function named() {
  const text = location.hash.replace(/^#query=/, "");
  try {
    return Math.max(page.names.indexOf(decodeURIComponent(text)), 0);
  } catch { // not an address that the page wrote
    return 0;
  }
}

// ------------------------------------------------------------------ a running job
const live = document.getElementById("live");

function state(kind, text) {
  live.hidden = false;
  live.className = kind;
  live.textContent = text;
}

/** Asks for the state of the chosen query; while one answer is awaited, no other is asked for. */
async function refresh() {
  if (page.asking) return void (page.again = true);
  page.asking = true;
  try {
    const index = await (await fetch("trace.json")).json();
    choices(index.queries);
    page.index = index.index;
    document.getElementById("problem").textContent = index.problem ?? "";
    if (index.queries.length) {
      if (!main.contains(parts.head)) lay(); // an answer of before the first batch has cleared the page
      if (!page.query) document.getElementById("query").value = named();
      const name = page.names[Number(document.getElementById("query").value) || 0];
      show(await (await fetch(`trace.json?query=${encodeURIComponent(name)}`)).json());
    } else main.replaceChildren(element("p", {}, "No micro-batch has ended yet."));
  } catch {
    state("lost", "the job does not answer");
  } finally {
    page.asking = false;
    if (page.again) {
      page.again = false;
      setTimeout(refresh, 500);
    }
  }
}

function follow() {
  const events = new EventSource("events");
  events.addEventListener("batch", (event) => {
    const batch = JSON.parse(event.data).batch;
    state("", batch === null ? "live, before the first batch" : `live, after batch ${WHOLE.format(batch)}`);
    refresh();
  });
  events.addEventListener("end", () => {
    events.close();
    state("ended", "the run has ended");
  });
  events.onerror = () => state("lost", events.readyState === EventSource.CLOSED ? "the run is over or has been stopped" : "the job does not answer; trying again");
}

// ------------------------------------------------------------------ beginning
function begin() {
  document.getElementById("query").addEventListener("change", (event) => chosen(Number(event.target.value)));
  let width = main.clientWidth;
  new ResizeObserver(() => {
    if (page.query && page.scale === 1 && main.clientWidth !== width) {
      width = main.clientWidth;
      drawAll();
    }
  }).observe(main);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => page.query && drawAll());
  addEventListener("beforeprint", () => paper(2));
  addEventListener("afterprint", () => paper(1));
  if (data.live) return follow();
  choices(data.queries.map((query) => query.query));
  if (!data.queries.length) return main.replaceChildren(element("p", {}, "The trace is empty: no micro-batch was recorded."));
  lay();
  document.getElementById("query").value = named();
  show(data.queries[named()]);
}

/** Charts for paper are drawn at twice their size, in the colours of paper. */
function paper(scale) {
  if (!page.query) return;
  page.scale = scale;
  document.documentElement.classList.toggle("paper", scale > 1);
  drawAll();
}

begin();
