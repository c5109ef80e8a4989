// What a reader sees first: what adapting saved, the query, all queries of a trace, and another trace beside this one.

/** The headline of a query, and what qualifies it. */
function headline(query) {
  const [first, ...rest] = query.headline;
  return [element("p", { class: "headline" }, unbroken(first)), rest.length ? element("p", { class: "dim" }, unbroken(rest.join(" "))) : null];
}

function queryText(query) {
  return query.text ? folded("query text", `The query ${query.query}`, () => [element("pre", { class: "code" }, query.text)]) : null;
}

/** A query in the list of queries. */
function indexEntry(query) {
  return { query: query.query, headline: query.headline[0], batches: query.batches, ms: total(query.ms), joins: query.savings.measured, switched: query.switched, worst: query.estimates[0]?.p95 ?? null };
}

/** All queries of a trace, those that took most time first; `choose` is called with the name of one. Phases are common to the queries of a
 *  run: where all took the same time, it is that of their joins. */
function indexTable(entries, current, choose) {
  const common = entries.every((entry) => entry.ms === entries[0].ms) && entries.some((entry) => entry.joins), time = common ? "joins" : "ms";
  const rows = (some) => some.map((entry) => [
    element("button", { type: "button", class: "link", "data-key": `query ${entry.query}`, "aria-current": entry.query === current ? "true" : null, onclick: () => choose(entry.query) }, entry.query),
    unbroken(entry.headline), WHOLE.format(entry.batches), duration(entry[time]), WHOLE.format(entry.switched), figure(entry.worst)]);
  const columns = [["query", ""], ["what adapting saved", "wide"], ["batches", "n"], [common ? "joins" : "time", "n"], ["switches", "n"], ["q-error", "n"]];
  const ordered = [...entries].sort((a, b) => b[time] - a[time]), first = ordered.slice(0, INDEXED), rest = ordered.slice(INDEXED);
  return [element("h2", {}, plural(entries.length, "query").replace("querys", "queries")), table(columns, rows(first), "queries"),
    rest.length ? folded("queries", `${WHOLE.format(rest.length)} more queries`, () => [table(columns, rows(rest), "more queries")]) : null];
}
const INDEXED = 10;

// ------------------------------------------------------------------ two traces
/** The query of the other trace to compare with: the one of the same name, or the only one. */
function counterpart(query) {
  const others = data.compare?.queries ?? [];
  return others.find((other) => other.query === query.query) ?? (others.length === 1 && data.queries.length === 1 ? others[0] : null);
}

function comparison(query) {
  if (!data.compare) return [];
  const other = counterpart(query), head = element("h2", {}, `Compared with ${data.compare.title}`);
  if (!other) return [head, element("p", { class: "note" }, `${data.compare.title} has no query ${query.query}.`)];
  const measures = [["batches", (q) => q.batches, WHOLE.format], ["elements", (q) => q.elements, WHOLE.format], ["time of all batches", (q) => total(q.ms), duration],
    ...PHASES.map(([phase]) => [`– ${phase}`, (q) => q.ms[phase], duration]), ["median batch", (q) => q.median_ms, duration], ["slowest batch", (q) => (q.slowest[0] ? total(q.slowest[0].ms) : null), duration],
    ["plan switches", (q) => q.switched, WHOLE.format], ["greatest q-error (95 %)", (q) => q.estimates[0]?.p95 ?? null, figure]];
  const rows = measures.filter(([, of]) => of(query) || of(other)).map(([name, of, format]) => [name, shown(of(query), format), shown(of(other), format), relative(of(query), of(other))]);
  const [a, b] = [total(query.ms), total(other.ms)];
  const words = query.batches !== other.batches ? `“${data.title}” has ${plural(query.batches, "batch")}, “${data.compare.title}” ${WHOLE.format(other.batches)}: compare medians, not sums.`
    : a === b ? "Both took the same time." : `All batches took ${duration(Math.abs(a - b))} ${b < a ? "less" : "more"} in “${data.compare.title}” than in “${data.title}” (${relative(a, b)}).`;
  return [head, element("p", {}, element("strong", {}, words), ` ${agreement(query, other)}`), table([["", ""], [data.title, "n"], [data.compare.title, "n"], ["difference", "n"]], rows, "two traces")];
}

function shown(value, format) {
  return value === null ? "–" : format(value);
}

function relative(here, there) {
  if (!here || there === null || there === undefined) return "–";
  const percent = (100 * (there - here)) / here;
  return `${percent > 0 ? "+" : percent < 0 ? "−" : ""}${Math.abs(percent).toFixed(Math.abs(percent) < 10 ? 1 : 0)} %`;
}

/** In how many batches the sources of both ran the same plans. */
function agreement(query, other) {
  let same = 0, both = 0;
  for (const source of query.sources) {
    const there = other.sources.find((found) => found.source === source.source);
    for (const [first, last, place] of source.reigns) {
      for (const [from, to, at] of there?.reigns ?? []) {
        const length = Math.min(last, to) - Math.max(first, from) + 1;
        if (length <= 0) continue;
        both += length;
        if (source.plans[place].plan === there.plans[at].plan) same += length;
      }
    }
  }
  return both ? `Both ran the same plan in ${((100 * same) / both).toFixed(0)} % of the batches of all delta sources.` : "They have no delta source in common.";
}

/** The times of both traces in one chart, record by record. */
function comparisonCharts(query) {
  const other = counterpart(query);
  if (!other?.batch.ms || !query.batch.ms) return [];
  const { mean } = other.batch.ms, aligned = places(query).map((record) => mean[Math.floor(record / other.points.width)] ?? null);
  return [{ title: "Time of a batch", note: "in both traces", format: duration, time: true, lines: [
    { label: data.title, values: query.batch.ms, colour: "p0", plain: true }, { label: data.compare.title, values: { mean: aligned }, colour: "p1", dash: [5, 3] }] }];
}
