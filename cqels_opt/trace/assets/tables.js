// What the pictures show, as tables.

const AT_ONCE = 50; // rows of a long table; a button brings more
const RANKED = 6; // switches that are shown before the others are folded
const SMALL_SHARE = 0.02; // of all that switches saved and cost more: a switch below is small

/** A table; `columns` are [head, class], rows are lists of texts and elements. */
function table(columns, rows, caption) {
  const head = element("tr", {}, columns.map(([name, kind]) => element("th", { class: kind, scope: "col" }, name)));
  const body = rows.map((row) => element("tr", {}, row.map((cell, at) => element("td", { class: columns[at][1] }, cell))));
  return element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    element("table", { class: "data" }, element("thead", {}, head), element("tbody", {}, body)));
}

function tiles(query) {
  const { batches } = query, slow = query.slowest[0];
  const found = [
    ["batches", WHOLE.format(batches)], ["elements", WHOLE.format(query.elements)], ["late", WHOLE.format(query.late)],
    ["rejected", WHOLE.format(query.rejected)], ["plan switches", WHOLE.format(query.switched)], ["median batch", duration(query.median_ms)],
    ["slowest batch", slow ? `${duration(total(slow.ms))} (${slow.batch})` : "–"], ...(query.most_jobs ? [["jobs per batch", `≤ ${query.most_jobs}`]] : []),
  ];
  if (query.instances > 1) found.unshift(["instances", WHOLE.format(query.instances)]);
  return element("dl", { class: "tiles" }, found.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value))));
}

function total(ms) {
  return Object.values(ms).reduce((a, b) => a + b, 0);
}

function notes(query) {
  return [
    query.noted ? folded("notes", `${plural(query.noted, "notice")}${query.noted > query.notes.length ? `, of which the newest ${query.notes.length} are here` : ""}`, () => [element("ul", {}, query.notes.map((line) => element("li", {}, line)))]) : null,
    element("p", { class: "dim" }, query.first_time === null ? "" : `Stream time ${clock(query.first_time)} to ${clock(query.last_time)} UTC. `,
      unbroken(`${duration(total(query.ms))}${query.alone ? "" : " of all queries"} in all: ${Object.entries(query.ms).map(([phase, ms]) => `${phase} ${duration(ms)}`).join(", ")}.`)),
    query.lag ? element("p", { class: "dim" }, unbroken(`Lag: ${query.lag}.`)) : null,
    ...query.failed.map((why) => element("p", { class: "note" }, `Failed, ${why}.`)),
    ...query.fallbacks.map((reason) => element("p", { class: "note" }, `The optimizer fell back to a greedy order: ${reason}.`)),
    query.points.width > 1 ? element("p", { class: "dim" }, `Each point of a chart is ${query.points.width} batches: the line is their mean, the band reaches from the least to the greatest.`) : null,
  ];
}

function planTable(query, source) {
  const batches = source.plans.reduce((sum, plan) => sum + plan.batches, 0);
  const order = source.plans.map((_, place) => place).sort((a, b) => source.plans[b].batches - source.plans[a].batches).slice(0, AT_ONCE);
  const rows = order.sort((a, b) => a - b).map((place) => {
    const plan = source.plans[place];
    return [key(source, place), WHOLE.format(plan.batches), `${Math.round((100 * plan.batches) / batches)} %`, duration(plan.ms), costText(query, plan.cost), element("code", {}, plan.plan)];
  });
  const columns = [["", ""], ["batches", "n"], ["share", "n"], ["time", "n"], ["last cost", "n"], ["plan", "wide"]];
  const rest = source.plans.length - order.length;
  return [table(columns, rows, `plans of ${source.source}`), rest > 0 ? element("p", { class: "dim" }, `and ${plural(rest, "plan")} that ran in fewer batches`) : null];
}

/** All switches of a query with their sources, in the order of time. */
function allSwitches(query) {
  return query.sources.flatMap((source) => source.switches.map((one) => ({ source, one }))).sort((a, b) => a.one.record - b.one.record);
}

/** What a switch saved, in the unit of costs: until the next switch of its source, or else in its own batch; null if unknown. */
function savedBy(one) {
  if (one.since.batches) return one.since.saved;
  return one.cost === null || one.instead_of === null ? null : one.instead_of - one.cost;
}

/** All switches, those that saved or cost most first. */
function rankedSwitches(query) {
  return allSwitches(query).map((found) => ({ ...found, saved: savedBy(found.one) })).sort((a, b) => Math.abs(b.saved ?? 0) - Math.abs(a.saved ?? 0) || a.one.record - b.one.record);
}

/** Saved, or the regret, as a bar and in words. */
function savedCell(query, { one, saved }, greatest) {
  if (saved === null) return "unknown";
  const bar = element("span", { class: `bar${saved < 0 ? " lost" : ""}`, "aria-hidden": "true" });
  bar.style.width = `${greatest > 0 ? (4.5 * Math.abs(saved)) / greatest : 0}em`;
  const { batches, outcome, share } = one.since;
  const more = batches ? `${(100 * share).toFixed(1)} % in ${plural(batches, "batch")}` : "in its batch";
  const word = batches && outcome === "regret" ? "regret" : saved < 0 ? "cost" : "saved";
  return element("span", {}, bar, unbroken(`${word} ${costText(query, Math.abs(saved))}, ${more}`));
}

function switchTable(query, shown, choose) {
  const switches = rankedSwitches(query), whole = switches.reduce((sum, { saved }) => sum + Math.abs(saved ?? 0), 0), greatest = Math.abs(switches[0]?.saved ?? 0);
  const kept = query.switched > switches.length ? `, of which the newest ${WHOLE.format(switches.length)} are here` : "";
  const columns = [["batch", "n"], ["stream time", "t"], ["delta", "t"], ["from, to", "t"], ["saved", "saved"], ["why", "wide"], ["", "show"]];
  const rows = (some) => some.map((found) => {
    const { source, one } = found;
    return [
      WHOLE.format(one.batch), clock(one.time), source.source, element("span", {}, key(source, one.from), " → ", key(source, one.to)),
      savedCell(query, found, greatest), element("ul", { class: "plain" }, reasons(query, one).slice(0, 3)),
      element("button", { type: "button", "data-key": `show ${source.source} ${one.record}`, onclick: () => choose(source, one, true) }, "trees"),
    ];
  });
  const large = switches.findIndex(({ saved }, at) => at >= RANKED || (at > 0 && Math.abs(saved ?? 0) < SMALL_SHARE * whole));
  const first = large < 0 ? switches : switches.slice(0, large), rest = switches.slice(first.length);
  const saved = rest.reduce((sum, found) => sum + (found.saved ?? 0), 0);
  const more = rest.length > shown ? element("p", { class: "more" }, element("button", { type: "button", "data-key": "more", onclick: () => choose(null) }, `${WHOLE.format(rest.length - shown)} more`)) : null;
  return [
    element("h2", {}, `${plural(query.switched, "plan switch")}${kept}`),
    switches.length ? element("p", { class: "dim" }, "Ranked by what each saved over the plan before it until the next one, as the cost model estimates it. The headline compares with the first plan instead.") : element("p", { class: "dim" }, "Every delta source kept its first plan."),
    switches.length ? table(columns, rows(first), "plan switches and why") : null,
    rest.length ? folded("more switches", `${WHOLE.format(rest.length)} smaller: ${saved < 0 ? "cost" : "saved"} ${costText(query, Math.abs(saved))} together`,
      () => [table(columns, rows(rest.slice(0, shown)), "smaller plan switches and why"), more]) : null,
  ];
}

const unfolded = new Set(); // names of details that the reader opened, which stay open when the page is drawn again

/** Details that are drawn when they are opened. */
function folded(name, summary, draw) {
  const made = element("details", { open: unfolded.has(name) }, element("summary", {}, summary));
  const fill = () => {
    if (made.open && made.childElementCount === 1) made.append(...draw().filter(Boolean));
    if (made.open) unfolded.add(name);
    else unfolded.delete(name);
  };
  made.addEventListener("toggle", fill);
  fill();
  return made;
}

function estimateTable(query) {
  if (!query.estimates.length) return [];
  const rows = query.estimates.map((e) => [e.relation, WHOLE.format(e.known), figure(e.median), figure(e.p95), figure(e.greatest)]);
  const worst = query.estimates[0];
  return [folded("q-errors", `q-error of ${plural(query.estimates.length, "relation")}: ${worst.relation} has ${figure(worst.p95)} (95 %), 1 is exact`, () => [table([["relation", "wide"], ["probes", "n"], ["median", "n"], ["95 %", "n"], ["greatest", "n"]], rows, "q-errors by relation")])];
}

function slowTable(query) {
  const phases = PHASES.map(([phase]) => phase);
  const rows = query.slowest.map((slow) => [WHOLE.format(slow.batch), clock(slow.time), WHOLE.format(slow.elements), duration(total(slow.ms)), ...phases.map((phase) => duration(slow.ms[phase]))]);
  return [element("h2", {}, "Slowest batches"),
    table([["batch", "n"], ["stream time", "t"], ["elements", "n"], ["time", "n"], ...phases.map((phase) => [phase, "n"])], rows, "slowest batches")];
}

function subResults(query) {
  if (!query.sub_results.length) return [];
  return [element("h2", {}, "Sub-results"), element("ul", {}, query.sub_results.slice(-AT_ONCE).map((line) => element("li", {}, line)))];
}

function versionTable(query) {
  if (!query.versions.length) return [];
  const rows = query.versions.slice(-AT_ONCE).map((one) => [WHOLE.format(one.batch), clock(one.time), WHOLE.format(one.now), WHOLE.format(one.was)]);
  return [element("h2", {}, "Static data"),
    table([["first batch", "n"], ["stream time", "t"], ["version", "n"], ["in the place of", "n"]], rows, "versions of the static data")];
}

/** What became of calls of extension functions; of distinct arguments only those that no cache had were computed. */
function callTable(query) {
  if (!query.calls.length) return [];
  const rows = query.calls.map((c) => [element("code", {}, c.call), WHOLE.format(c.rows), WHOLE.format(c.distinct), c.looked_up ? `${Math.round((100 * c.hits) / c.looked_up)} %` : "–", duration(c.ms)]);
  return [element("h2", {}, "Extension functions"),
    table([["call", "wide"], ["rows", "n"], ["distinct arguments", "n"], ["from the cache", "n"], ["time", "n"]], rows, "calls of extension functions")];
}

// ------------------------------------------------------------------ trees of plans
function operatorTable(plan, rows) {
  const timed = rows.some((given) => given.length > 2), skewed = rows.some((given) => given[3] !== undefined && given[3] !== null);
  const lines = plan.operators.map((operator, at) => {
    const given = rows[at] ?? [null, null];
    const line = [operator.by ?? operator.op, operator.relation, variables(operator.on), figure(given[0]), figure(given[1]), figure(qError(given))];
    return [...line, ...(timed ? [duration(given[2])] : []), ...(skewed ? [figure(given[3])] : [])];
  });
  const columns = [["operator", "t"], ["relation", ""], ["on", "names"], ["estimated", "n"], ["observed", "n"], ["q-error", "n"], ...(timed ? [["time", "n"]] : []), ...(skewed ? [["skew", "n"]] : [])];
  return table(columns, lines, `operators of plan ${plan.letter}`);
}

/** Variables, each on one line. */
function variables(names) {
  return element("span", {}, names.flatMap((name, at) => [at ? " " : null, element("span", {}, `?${name}`)]));
}

/** The operators above the joins in the last batch. */
function aboveTable(query) {
  if (!query.above.length) return [];
  const rows = query.above.map((o) => [o.op, o.relation, variables(o.on), figure(o.observed), duration(o.ms), figure(o.bytes), figure(o.skew)]);
  const spent = query.above.reduce((sum, o) => sum + (o.ms ?? 0), 0);
  return [folded("above", `Operators above the joins, last batch: ${duration(spent)}`,
    () => [table([["operator", "t"], ["of", ""], ["on", "names"], ["rows", "n"], ["time", "n"], ["bytes", "n"], ["skew", "n"]], rows, "operators above the joins")])];
}

/** A plan with its letter, its tree and the rows that its operators gave. */
function planSide(source, place, rows, head, room, other = null) {
  const plan = source.plans[place];
  const trees = (plan.trees ?? []).flatMap((tree) => [tree.beyond ? element("p", { class: "dim" }, `rows with ${tree.beyond}:`) : null, drawTree(tree, rows, place, room, other)]);
  const spent = rows.reduce((sum, given) => sum + (given[2] ?? 0), 0), time = spent ? `, joins ${duration(spent)}` : "";
  return element("div", {}, element("p", {}, key(source, place), ` ${head}${time}`), trees.length ? trees : element("p", {}, element("code", {}, plan.plan)),
    element("details", {}, element("summary", {}, "operators in the order they ran"), element("p", {}, element("code", {}, plan.plan)), operatorTable(plan, rows)));
}

/** The room of one of several plans side by side, in two columns if all of them fit. */
function sidesFor(plans, inside) {
  const half = (inside - 32) / 2, trees = plans.flatMap((plan) => plan.trees ?? []);
  const two = plans.length > 1 && inside > 600 && trees.every((tree) => treeWidth(tree) * LEAST_SCALE <= half);
  return { room: two ? half : inside, made: (...sides) => element("div", { class: `sides${two ? " two" : ""}` }, ...sides) };
}

/** The switch that was picked: why, and the plans before and after as trees with the rows of the batches beside it. */
function switchPanel(query, picked, step, inside) {
  const all = allSwitches(query), at = all.findIndex(({ one }) => one === picked.one), { source, one } = picked;
  const move = (by) => element("button", { type: "button", "data-key": `step ${by}`, disabled: !all[at + by], onclick: () => step(all[at + by]) }, by < 0 ? "‹ earlier" : "later ›");
  const [before, after] = [source.plans[one.from], source.plans[one.to]], { room, made } = sidesFor([before, after], inside);
  const joins = (plan) => (plan.trees ? new Set(plan.trees.flatMap((tree) => [...joinSets(tree)])) : null);
  return element("section", { class: "panel", "aria-label": "the plans before and after a switch" },
    element("div", { class: "steps" }, element("strong", { role: "status" }, switchLine(source, one)), move(-1), move(1)),
    element("ul", { class: "plain" }, reasons(query, one)),
    before.trees && after.trees ? element("p", { class: "dim differs-key" }, differences(before, after)) : null,
    made(planSide(source, one.from, one.before, "before: rows of the last batch under it", room, joins(after)),
      planSide(source, one.to, one.after, "after: rows of this batch", room, joins(before))));
}

/** The difference of two plans in words. */
function differences(before, after) {
  const [was, is] = [before, after].map((plan) => new Set(plan.trees.flatMap((tree) => [...joinSets(tree)])));
  const others = [...is].filter((join) => !was.has(join)).length;
  return others ? `${plural(others, "join")} of ${is.size} in the new plan ${others === 1 ? "is" : "are"} not in the old one: highlighted in both` : "Both plans have the same intermediate results";
}

/** The plans of the last batch, where nothing was picked: the most expensive ones, and the others folded. */
function currentPanel(query, inside) {
  const now = query.sources.filter((source) => source.reigns.length).map((source) => ({ source, place: source.reigns.at(-1)[2], since: source.reigns.at(-1)[0] }))
    .sort((a, b) => (b.source.plans[b.place].cost ?? 0) - (a.source.plans[a.place].cost ?? 0));
  const { room, made } = sidesFor(now.map(({ source, place }) => source.plans[place]), inside);
  const side = ({ source, place, since }) => planSide(source, place, source.plans[place].operators.map((o) => (o.ms === undefined ? [o.estimated, o.observed] : [o.estimated, o.observed, o.ms, o.skew ?? null])), `${source.source}, since batch ${batchOf(query, since)}`, room);
  return element("section", { class: "panel", "aria-label": "the plans of the last batch" }, element("strong", {}, "The plans of the last batch"), made(now.slice(0, 2).map(side)),
    now.length > 2 ? folded("plans now", `the plans of ${plural(now.length - 2, "other delta source")}`, () => [made(now.slice(2).map(side))]) : null);
}
