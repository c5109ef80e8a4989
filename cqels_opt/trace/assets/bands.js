// The time line of plans: a band a delta source, coloured by the plan that ruled, and a mark where it switched.

const NARROW = 2, APART = 14; // pixels: reigns below are drawn together, and marks nearer to each other are one

/** The share of the view that lies before a record, in percent. */
function percent(record, view) {
  return (100 * (record - view.from)) / (view.to - view.from);
}

/** Reigns as segments, those too narrow to be seen taken together: {first, last, places}. */
function segments(source, view, pixels) {
  const found = [];
  const narrow = (first, last) => ((last - first + 1) / (view.to - view.from)) * pixels < NARROW;
  for (const [first, last, place] of source.reigns) {
    const end = last + 1;
    if (end <= view.from || first >= view.to) continue;
    const before = found.at(-1);
    if (before && narrow(first, last) && narrow(before.last - before.narrow + 1, before.last)) {
      before.last = last;
      before.narrow = last - first + 1;
      before.places.add(place);
    } else found.push({ first, last, narrow: last - first + 1, places: new Set([place]) });
  }
  return found;
}

function drawReigns(source, view, pixels) {
  return segments(source, view, pixels).map((segment) => {
    const from = Math.max(percent(segment.first, view), 0), to = Math.min(percent(segment.last + 1, view), 100);
    const places = [...segment.places], plan = source.plans[places[0]];
    const mixed = places.length > 1;
    const what = mixed ? `${plural(places.length, "plan")} in turn: ${places.map((p) => source.plans[p].letter).join(", ")}` : `${plan.letter}: ${plan.plan}`;
    const made = element("div", { class: `reign ${planClass(places[0])}${mixed ? " mixed" : ""}`, title: what },
      !mixed && ((to - from) / 100) * pixels > 16 ? plan.letter : null);
    made.style.left = `${from}%`;
    made.style.width = `${to - from}%`;
    return made;
  });
}

/** Switches as marks: those that would overlap are one mark, of the first of them. */
function clusters(switches, view, pixels) {
  const found = [];
  for (const one of switches) {
    if (one.record < view.from || one.record > view.to) continue;
    const at = percent(one.record, view), before = found.at(-1);
    if (before && ((at - before.at) / 100) * pixels < APART) before.switches.push(one);
    else found.push({ at, switches: [one] });
  }
  return found;
}

/** One line on a switch, as a screen reader says it. */
function switchLine(source, one) {
  const [from, to] = [source.plans[one.from], source.plans[one.to]];
  const gain = one.instead_of !== null && one.cost !== null ? `, cost ${costText(page.query, one.instead_of)} → ${costText(page.query, one.cost)}` : "";
  return `batch ${one.batch}, ${clock(one.time)}, delta ${source.source}: ${from.letter} → ${to.letter}${gain}${since(one.since)}`;
}

/** What a switch has saved, or its regret, in the batches until the next one. */
function since({ batches, outcome, share }) {
  return batches ? `, ${outcome} ${(100 * share).toFixed(1)} % in ${plural(batches, "batch")}` : "";
}

/** Why a switch was made: a line a statistic that moved. */
function reasons(query, one) {
  if (!one.reason.length) return [element("li", { class: "dim" }, "no statistic is named as the reason")];
  return one.reason.map(([statistic, ...values]) => {
    const name = query.statistics[statistic], [was, now] = values.map((value) => (name.startsWith("share of ") && value !== null ? `${figure(100 * value)} %` : known(value)));
    return element("li", {}, unbroken(`${name}: ${was} → ${now}`));
  });
}

function drawMarks(query, source, view, pixels, picked, choose) {
  const marks = clusters(source.switches, view, pixels).map(({ at, switches }, number) => {
    const first = switches[0], many = switches.length > 1;
    const label = switchLine(source, first) + (many ? `, and ${plural(switches.length - 1, "more switch")} right after it` : "");
    const tip = () => showTip(made, [element("strong", {}, label), element("ul", { class: "plain" }, reasons(query, first))]);
    const made = element("button", {
      class: "mark", type: "button", "aria-label": label, tabindex: number ? -1 : 0, "aria-current": switches.includes(picked) ? "true" : null,
      onmouseenter: tip, onfocus: tip, onmouseleave: hideTip, onblur: hideTip, onclick: () => choose(source, first),
    }, many ? "▼" : "▽");
    made.style.left = `${at}%`;
    return made;
  });
  const row = element("div", { class: "marks", role: "toolbar", "aria-label": `switches of ${source.source}` }, marks);
  row.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, Home: -marks.length, End: marks.length }[event.key];
    if (step === undefined) return;
    const next = marks[Math.max(0, Math.min(marks.length - 1, marks.indexOf(event.target) + step))];
    for (const mark of marks) mark.tabIndex = mark === next ? 0 : -1;
    next.focus();
    event.preventDefault();
  });
  return row;
}

function showTip(at, content) {
  const tip = document.getElementById("tip"), box = at.getBoundingClientRect();
  tip.replaceChildren(...content);
  tip.hidden = false;
  const left = Math.min(box.left + scrollX, scrollX + document.documentElement.clientWidth - tip.offsetWidth - 12);
  tip.style.left = `${Math.max(left, 8)}px`;
  tip.style.top = `${box.bottom + scrollY + 6}px`;
}

function hideTip() {
  document.getElementById("tip").hidden = true;
}

/** Batch numbers and their stream times below the bands, each batch once. */
function drawAxis(query, view, pixels) {
  const ticks = Math.max(2, Math.floor(pixels / 190));
  const places = [...Array(ticks + 1).keys()].map((number) => placeOf(query, Math.min(view.from + ((view.to - view.from) * number) / ticks, query.batches - 1)));
  return element("div", { class: "axis", "aria-hidden": "true" }, places.map((place, number) => {
    if (place === places[number - 1]) return null;
    const made = element("span", {}, place);
    made.style.left = `${(100 * number) / ticks}%`;
    made.style.transform = `translateX(-${number === ticks ? 100 : number ? 50 : 0}%)`;
    return made;
  }));
}

/** The batch number of a record: exact where records have points of their own, else counted on from the point's first one. */
function batchOf(query, record) {
  const { width, batches } = query.points, point = Math.max(0, Math.min(Math.floor(record / width), batches.length - 1));
  return batches[point] + Math.floor(record) - point * width;
}

function placeOf(query, record) {
  const { width, times } = query.points, point = Math.max(0, Math.min(Math.floor(record / width), times.length - 1));
  return `${batchOf(query, record)} · ${shortTime(query, times[point])}`;
}

/** One line on a batch that was the first with another version of the static data. */
function versionLine(one) {
  return `batch ${one.batch}, ${clock(one.time)}: version ${one.now} of the static data in the place of version ${one.was}`;
}

/** The batches from which on the static data were others, as marks; those that would overlap are one mark. */
function drawVersions(query, view, pixels) {
  const marks = clusters(query.versions, view, pixels).map(({ at, switches }) => {
    const made = element("span", { class: "mark", title: switches.map(versionLine).join("\n") }, "◆");
    made.style.left = `${at}%`;
    return made;
  });
  return element("div", { class: "versions" }, element("h3", {}, "static data ", element("span", { class: "dim" }, plural(query.versions.length, "new version"))),
    element("div", { class: "marks", role: "img", "aria-label": query.versions.slice(0, 12).map(versionLine).join("; ") }, marks));
}

/** All bands of a query, so many pixels wide; `choose` is called with the switch that was clicked. */
function drawBands(host, query, view, pixels, picked, choose) {
  host.replaceChildren(
    ...query.sources.map((source) => element("div", { class: "source" },
      element("h3", {}, source.source, " ", element("span", { class: "dim" }, `${plural(source.plans.length, "plan")}, ${plural(source.switched, "switch")}`)),
      element("div", { class: "band", role: "img", "aria-label": `plans of ${source.source} over time: ${bandInWords(query, source)}` },
        element("div", { class: "reigns" }, drawReigns(source, view, pixels))),
      source.switches.length ? drawMarks(query, source, view, pixels, picked, choose) : null)),
    ...(query.versions.length ? [drawVersions(query, view, pixels)] : []),
    drawAxis(query, view, pixels),
  );
}

function bandInWords(query, source) {
  const said = source.reigns.slice(0, 12).map(([first, , place]) => `${source.plans[place].letter} from batch ${batchOf(query, first)}`);
  return said.join(", ") + (source.reigns.length > 12 ? ", and so on" : "");
}
