// A plan as a tree: relations on the left in the order in which they are joined, joins to the right of what they join.

const ROW = 24, TOP = 16, LETTER = 7.3; // pixels
const SHORT = 18, USUAL = 26, LONG = 60; // letters of a name: at least, where trees are measured, and at most
const STEP = 34, END = 58; // pixels between joins at least, and to the right of the last one
const LEAST_SCALE = 0.72; // a tree that is wider than its room is drawn smaller, and scrolls beyond this

/** The joins of a tree, each as the set of relations that it joins. */
function joinSets(tree) {
  const found = new Set();
  const walk = (node) => {
    if (!node.sides) return [node.relation];
    const relations = node.sides.flatMap(walk).sort();
    found.add(relations.join("\n"));
    return relations;
  };
  walk(tree);
  return found;
}

function depth(node) {
  return node.sides ? 1 + Math.max(...node.sides.map(depth)) : 0;
}

/** The least width of a tree in pixels. */
function treeWidth(tree) {
  const longest = (node, on) => (node.sides ? Math.max(longest(node.sides[0], null), longest(node.sides[1], node.sides[1].sides ? null : node.on)) : label(node.relation, on, USUAL).length);
  return longest(tree, null) * LETTER + 8 + STEP * depth(tree) + END;
}

/** The tree of a plan with the rows that its operators gave; `rows` are pairs of estimated and observed, in the trace's order.
 *  Joins that are not in `other` (a set of :joinSets) are highlighted; null highlights none. */
function drawTree(tree, rows, place, room, other = null) {
  const leaves = [], joins = [], letters = Math.floor((room - 10 - END - STEP * depth(tree)) / LETTER);
  const longest = Math.max(SHORT, Math.min(LONG, letters));
  const lay = (node, on) => {
    if (!node.sides) {
      Object.assign(node, { y: TOP + ROW * leaves.length, level: 0, label: label(node.relation, on, longest), relations: [node.relation] });
      leaves.push(node);
      return node;
    }
    const leaf = !node.sides[1].sides;
    const [left, right] = [lay(node.sides[0], null), lay(node.sides[1], leaf ? node.on : null)];
    const relations = [...left.relations, ...right.relations].sort();
    Object.assign(node, { y: (left.y + right.y) / 2, level: Math.max(left.level, right.level) + 1, label: joinedOn(node.on), relations, differs: other !== null && !other.has(relations.join("\n")) });
    joins.push(node);
    return node;
  };
  const root = lay(structuredClone(tree), null);
  const start = Math.max(...leaves.map((leaf) => leaf.label.length)) * LETTER + 8;
  const step = Math.max(STEP, Math.min(84, (room - start - END - 2) / Math.max(root.level, 1)));
  const x = (node) => (node.level ? start + step * node.level : start);
  const width = start + step * root.level + END, height = TOP + ROW * leaves.length;
  const parts = [];
  for (const join of joins) {
    for (const side of join.sides) {
      const given = rows[side.operator] ?? [null, null];
      parts.push(element("path", { d: `M${x(side)} ${side.y} H${x(join)} V${join.y}`, "stroke-width": thickness(given), class: join.differs ? "differs" : null }));
    }
  }
  for (const join of joins) {
    const given = rows[join.operator] ?? [null, null];
    parts.push(element("circle", { cx: x(join), cy: join.y, r: join.differs ? 6 : 4, class: join.differs ? "differs" : null }, title(`join on ${join.label}: ${told(given)}${join.differs ? ". The other plan does not have this join" : ""}`)));
  }
  for (const leaf of leaves) parts.push(element("text", { x: 0, y: leaf.y + 4 }, leaf.label, title(leaf.relation)));
  for (const node of [...joins, ...leaves.filter((leaf) => leaf.operator !== null)]) {
    const given = rows[node.operator];
    if (!given) continue;
    const at = node.level ? { x: Math.min(x(node) + step - 5, width - 4), y: node.y - 4 } : { x: start + step - 6, y: node.y - 4 };
    parts.push(element("text", { ...at, class: `rows${wrong(given) ? " off" : ""}` }, short(given), title(told(given))));
  }
  if (root.level) parts.unshift(element("path", { d: `M${x(root)} ${root.y} h54`, "stroke-width": thickness(rows[root.operator]) }));
  const scale = width > room ? Math.max(LEAST_SCALE, room / width) : 1;
  const drawn = { class: planClass(place), width: width * scale, height: height * scale, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": spoken(tree, rows) };
  return element("div", { class: "tree", tabindex: 0, role: "group", "aria-label": "plan as a tree" }, element("svg", drawn, parts));
}

function title(text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", "title");
  made.textContent = text;
  return made;
}

function joinedOn(variables) {
  return variables.length ? variables.map((v) => `?${v}`).join(" ") : "nothing";
}

function label(relation, on, longest) {
  const text = on === null ? relation : `${relation} ${on.length ? on.map((v) => `?${v}`).join(" ") : "×"}`;
  return text.length > longest ? `${text.slice(0, longest - 1)}…` : text;
}

/** Rows that an operator gave, or was thought to give. */
function short([estimated, observed]) {
  return observed === null ? (estimated === null ? "?" : `~${compact(estimated)}`) : compact(observed);
}

function told([estimated, observed, ms, skew]) {
  const time = ms === undefined ? "" : `, ${duration(ms)}`;
  return `${known(observed)} rows, ${known(estimated)} estimated${time}${skew ? `, largest task ${figure(skew)} times the mean` : ""}`;
}

function qError([estimated, observed]) {
  if (estimated === null || observed === null) return null;
  const [e, o] = [Math.max(estimated, 1), Math.max(observed, 1)];
  return Math.max(e, o) / Math.min(e, o);
}

function wrong(given) {
  return (qError(given) ?? 1) > 4;
}

/** The more rows, the thicker: a pixel for every power of ten. */
function thickness(given) {
  const count = given ? (given[1] ?? given[0] ?? 1) : 1;
  return (1.2 + Math.min(6, Math.log10(Math.max(count, 1)))).toFixed(1);
}

/** The tree in words. */
function spoken(node, rows) {
  if (!node.sides) return node.relation;
  return `(${spoken(node.sides[0], rows)} joined with ${spoken(node.sides[1], rows)} on ${joinedOn(node.on)}: ${told(rows[node.operator] ?? [null, null])})`;
}
