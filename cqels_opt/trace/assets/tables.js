// What the pictures show, as tables.

const AT_ONCE = 50; // rows of a long table; a button brings more

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
    ["slowest batch", slow ? `${duration(total(slow.ms))} (${slow.batch})` : "–"], ["jobs a batch", `≤ ${query.most_jobs}`],
  ];
  if (query.instances > 1) found.unshift(["instances", WHOLE.format(query.instances)]);
  return element("dl", { class: "tiles" }, found.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value))));
}

function total(ms) {
  return Object.values(ms).reduce((a, b) => a + b, 0);
}

function notes(query) {
  return [
    element("p", { class: "dim" }, `Stream time ${clock(query.first_time)} to ${clock(query.last_time)} UTC. `,
      `${duration(total(query.ms))} in all: ${Object.entries(query.ms).map(([phase, ms]) => `${phase} ${duration(ms)}`).join(", ")}.`),
    query.lag ? element("p", { class: "dim" }, `Lag: ${query.lag}.`) : null,
    ...query.fallbacks.map((reason) => element("p", { class: "note" }, `The optimizer fell back to a greedy order: ${reason}.`)),
    query.points.width > 1 ? element("p", { class: "dim" }, `Each point of a chart is ${query.points.width} batches: the line is their mean, the band reaches from the least to the greatest.`) : null,
  ];
}

function planTable(source) {
  const batches = source.plans.reduce((sum, plan) => sum + plan.batches, 0);
  const order = source.plans.map((_, place) => place).sort((a, b) => source.plans[b].batches - source.plans[a].batches).slice(0, AT_ONCE);
  const rows = order.sort((a, b) => a - b).map((place) => {
    const plan = source.plans[place];
    return [key(source, place), WHOLE.format(plan.batches), `${Math.round((100 * plan.batches) / batches)} %`, duration(plan.ms), figure(plan.cost), element("code", {}, plan.plan)];
  });
  const columns = [["", ""], ["batches", "n"], ["share", "n"], ["time", "n"], ["last cost", "n"], ["plan", "wide"]];
  const rest = source.plans.length - order.length;
  return [table(columns, rows, `plans of ${source.source}`), rest > 0 ? element("p", { class: "dim" }, `and ${plural(rest, "plan")} that ruled less`) : null];
}

/** All switches of a query with their sources, in the order of time. */
function allSwitches(query) {
  return query.sources.flatMap((source) => source.switches.map((one) => ({ source, one }))).sort((a, b) => a.one.record - b.one.record);
}

function switchTable(query, shown, choose) {
  const switches = allSwitches(query);
  const kept = query.switched > switches.length ? `, of which the newest ${WHOLE.format(switches.length)} are here` : "";
  const columns = [["batch", "n"], ["stream time", "t"], ["delta", "t"], ["from, to", "t"], ["cost", "t"], ["why", "wide"], ["", "show"]];
  const rows = switches.slice(0, shown).map(({ source, one }) => [
    WHOLE.format(one.batch), clock(one.time), source.source,
    element("span", {}, key(source, one.from), " → ", key(source, one.to)), `${figure(one.instead_of)} → ${figure(one.cost)}`,
    element("ul", { class: "plain" }, reasons(query, one)),
    element("button", { type: "button", "data-key": `show ${source.source} ${one.record}`, onclick: () => choose(source, one, true) }, "trees"),
  ]);
  return [
    element("h2", {}, `${plural(query.switched, "plan switch")}${kept}`),
    switches.length ? table(columns, rows, "plan switches and why") : element("p", { class: "dim" }, "Every delta source kept its first plan."),
    switches.length > shown ? element("p", { class: "more" }, element("button", { type: "button", "data-key": "more", onclick: () => choose(null) }, `${WHOLE.format(switches.length - shown)} more`)) : null,
  ];
}

function estimateTable(query) {
  if (!query.estimates.length) return [];
  const rows = query.estimates.map((e) => [e.relation, WHOLE.format(e.known), figure(e.median), figure(e.p95), figure(e.greatest)]);
  return [element("h3", {}, "q-error of the estimates ", element("span", { class: "dim" }, "1 is exact")),
    table([["relation", "wide"], ["probes", "n"], ["median", "n"], ["95 %", "n"], ["greatest", "n"]], rows, "q-errors by relation")];
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
  const lines = plan.operators.map((operator, at) => {
    const given = rows[at] ?? [null, null];
    return [operator.op, operator.relation, operator.on.map((v) => `?${v}`).join(" "), figure(given[0]), figure(given[1]), figure(qError(given))];
  });
  return table([["operator", "t"], ["relation", ""], ["on", ""], ["estimated", "n"], ["observed", "n"], ["q-error", "n"]], lines, `operators of plan ${plan.letter}`);
}

/** A plan with its letter, its tree and the rows that its operators gave. */
function planSide(source, place, rows, head, room) {
  const plan = source.plans[place];
  const trees = (plan.trees ?? []).flatMap((tree) => [tree.beyond ? element("p", { class: "dim" }, `rows with ${tree.beyond}:`) : null, drawTree(tree, rows, place, room)]);
  return element("div", {}, element("p", {}, key(source, place), ` ${head}`), trees.length ? trees : element("p", {}, element("code", {}, plan.plan)),
    element("details", {}, element("summary", {}, "operators in the order they ran"), element("p", {}, element("code", {}, plan.plan)), operatorTable(plan, rows)));
}

/** The switch that was picked: why, and the plans before and after as trees with the rows of the batches beside it. */
function switchPanel(query, picked, step, room) {
  const all = allSwitches(query), at = all.findIndex(({ one }) => one === picked.one), { source, one } = picked;
  const move = (by) => element("button", { type: "button", "data-key": `step ${by}`, disabled: !all[at + by], onclick: () => step(all[at + by]) }, by < 0 ? "‹ earlier" : "later ›");
  return element("section", { class: "panel", "aria-label": "the plans before and after a switch" },
    element("div", { class: "steps" }, element("strong", { role: "status" }, switchLine(source, one)), move(-1), move(1)),
    element("ul", { class: "plain" }, reasons(query, one)),
    element("div", { class: "sides" },
      planSide(source, one.from, one.before, "before: rows of the last batch under it", room),
      planSide(source, one.to, one.after, "after: rows of this batch", room)));
}

/** The plans of now, where nothing was picked. */
function currentPanel(query, room) {
  const now = query.sources.flatMap((source) => {
    const reign = source.reigns.at(-1);
    return reign ? [planSide(source, reign[2], source.plans[reign[2]].operators.map((o) => [o.estimated, o.observed]), `${source.source}, since batch ${batchOf(query, reign[0])}`, room)] : [];
  });
  return element("section", { class: "panel", "aria-label": "the plans of the last batch" }, element("strong", {}, "The plans of the last batch"), element("div", { class: "sides" }, now));
}
