// The page: which query, which part of its time, which switch; and the next batch of a running job.

const page = { query: null, view: { from: 0, to: 1 }, whole: true, picked: null, shown: AT_ONCE, charts: [], scale: 1, left: 60, right: 14, names: [] };
const data = JSON.parse(document.getElementById("data").textContent);
const PAPER = 690; // pixels that a sheet of A4 has between its margins
const main = document.getElementById("main");
const parts = Object.fromEntries(["head", "bands", "panel", "costs", "switches", "plans", "time", "rows", "tables"].map((name) => [name, element("div", { id: name })]));
const narrow = matchMedia("(max-width: 40rem)");

function lay() {
  const number = (id, label) => [element("label", { for: id }, label), element("input", { id, type: "number", min: 0 })];
  const range = element("form", { class: "range", onsubmit: (event) => { event.preventDefault(); fromInputs(); } },
    number("from", "records from"), number("to", "to"), element("button", {}, "look"),
    element("button", { type: "button", id: "all", onclick: () => look(0, page.query.batches) }, "all"));
  main.replaceChildren(parts.head, element("h2", {}, "Plans over time"),
    element("p", { class: "dim" }, "Each band is a delta source, coloured by the plan that ruled. ▽ is a switch: rest or tab on it for the reason, press it for the plans as trees. ◆ is a batch that was the first with another version of the static data. Drag over a chart to look closer."),
    range, parts.bands, parts.panel, parts.switches, element("h2", {}, "What the plans cost"), parts.costs, parts.plans,
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
  parts.head.replaceChildren(tiles(query), ...notes(query).filter(Boolean));
  drawSwitches();
  parts.plans.replaceChildren(...query.sources.flatMap((source) => [element("h3", {}, `Plans of ${source.source}`), ...planTable(source).filter(Boolean)]));
  parts.tables.replaceChildren(...estimateTable(query), ...slowTable(query), ...versionTable(query), ...subResults(query), ...callTable(query));
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
  const inside = page.scale > 1 ? PAPER - 60 : parts.panel.clientWidth - 40;
  const room = inside > 700 ? (inside - 32) / 2 : inside; // for one of two trees
  const step = ({ source, one }) => pick(source, one);
  parts.panel.replaceChildren(page.picked ? switchPanel(page.query, page.picked, step, room) : currentPanel(page.query, room));
  parts.switches.replaceChildren(...switchTable(page.query, page.shown, (source, one, scroll) => (source ? pick(source, one, scroll) : more())).filter(Boolean));
}

function drawCharts() {
  for (const chart of page.charts) chart.end();
  page.charts = [];
  for (const [part, specs] of [["costs", costCharts(page.query)], ["time", batchCharts(page.query)], ["rows", rowCharts(page.query).slice(0, page.allRows ? undefined : 12)]]) {
    const charts = specs.map((spec) => drawChart(page, spec));
    const box = element("div", { class: "charts" }, charts);
    parts[part].replaceChildren(box, ...(charts.length ? [] : [element("p", { class: "dim" }, "Nothing is known.")]));
    page.charts.push(...charts);
  }
  const all = rowCharts(page.query).length;
  if (all > 12 && !page.allRows) {
    parts.rows.append(element("p", { class: "more" }, element("button", { type: "button", onclick: () => { page.allRows = true; drawAll(); } }, `${all - 12} more relations`)));
  }
  for (const chart of page.charts) chart.draw(page.scale > 1 ? (PAPER / 2 - 15) * page.scale : chart.clientWidth);
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
  if (!same) Object.assign(page, { whole: true, shown: AT_ONCE, allRows: false });
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

function named() {
  const wanted = page.names.indexOf(decodeURIComponent(location.hash.replace(/^#query=/, "")));
  return Math.max(wanted, 0);
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
    document.getElementById("problem").textContent = index.problem ?? "";
    if (index.queries.length) {
      if (!main.contains(parts.head)) lay(); // an answer of before the first batch has cleared the page
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
  document.getElementById("query").addEventListener("change", (event) => {
    location.hash = `query=${encodeURIComponent(page.names[event.target.value])}`;
    if (data.live) refresh();
    else show(data.queries[event.target.value]);
  });
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
