// A plan as a tree: relations on the left in the order in which they are joined, joins to the right of what they join.

const ROW = 24, TOP = 12, LETTER = 7.3, SMALL = 420; // pixels; a narrower room has shorter names and steps

/** The tree of a plan with the rows that its operators gave; `rows` are pairs of estimated and observed, in the trace's order. */
function drawTree(tree, rows, place, room) {
  const leaves = [], joins = [], [longest, shortest] = room < SMALL ? [18, 26] : [26, 40];
  const lay = (node, on) => {
    if (!node.sides) {
      Object.assign(node, { y: TOP + ROW * leaves.length, level: 0, label: label(node.relation, on, longest) });
      leaves.push(node);
      return node;
    }
    const leaf = !node.sides[1].sides;
    const [left, right] = [lay(node.sides[0], null), lay(node.sides[1], leaf ? node.on : null)];
    Object.assign(node, { y: (left.y + right.y) / 2, level: Math.max(left.level, right.level) + 1, label: joinedOn(node.on) });
    joins.push(node);
    return node;
  };
  const root = lay(structuredClone(tree), null);
  const start = Math.max(...leaves.map((leaf) => leaf.label.length)) * LETTER + 8;
  const step = Math.max(shortest, Math.min(84, (room - start - 60) / Math.max(root.level, 1)));
  const x = (node) => (node.level ? start + step * node.level : start);
  const width = start + step * root.level + 58, height = TOP + ROW * leaves.length;
  const parts = [];
  for (const join of joins) {
    for (const side of join.sides) {
      const given = rows[side.operator] ?? [null, null];
      parts.push(element("path", { d: `M${x(side)} ${side.y} H${x(join)} V${join.y}`, "stroke-width": thickness(given) }));
    }
  }
  for (const join of joins) {
    const given = rows[join.operator] ?? [null, null];
    parts.push(element("circle", { cx: x(join), cy: join.y, r: 4 }, title(`join on ${join.label}: ${told(given)}`)));
  }
  for (const leaf of leaves) parts.push(element("text", { x: 0, y: leaf.y + 4 }, leaf.label, title(leaf.relation)));
  for (const node of [...joins, ...leaves.filter((leaf) => leaf.operator !== null)]) {
    const given = rows[node.operator];
    if (!given) continue;
    const at = node.level ? { x: x(node) + step - 5, y: node.y - 4 } : { x: start + step - 6, y: node.y - 4 };
    parts.push(element("text", { ...at, class: `rows${wrong(given) ? " off" : ""}` }, short(given), title(told(given))));
  }
  if (root.level) parts.unshift(element("path", { d: `M${x(root)} ${root.y} h54`, "stroke-width": thickness(rows[root.operator]) }));
  const drawn = { class: planClass(place), width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": spoken(tree, rows) };
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

function told([estimated, observed]) {
  return `${known(observed)} rows, ${known(estimated)} estimated`;
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
