"use strict";
// How the page writes figures, and the one way in which it makes elements: text never becomes markup.

/** An element with attributes, event listeners (`onclick`) and children; strings are text. */
function element(tag, attributes = {}, ...children) {
  const made = tag === "svg" || SVG_TAGS.has(tag) ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}
const SVG_TAGS = new Set(["g", "path", "text", "circle"]);

const NUMBERS = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const COMPACT = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });

/** A number for people: whole with thousands, small to three digits without an exponent; "–" where it is not known. */
function figure(number) {
  if (number === null || number === undefined) return "–";
  if (number > 0 && number < 1e-6) return "<0.000001";
  return (Math.abs(number) >= 100 || Number.isInteger(number) ? WHOLE : NUMBERS).format(number);
}

/** For axes and trees, where there is little room: 1.2K, 3M. */
function compact(number) {
  if (number === null || number === undefined) return "–";
  if (number !== 0 && Math.abs(number) < 0.001) return Number(number.toPrecision(3)).toExponential();
  return COMPACT.format(number);
}

function known(number) {
  return number === null || number === undefined ? "unknown" : figure(number);
}

/** Milliseconds for people: 85 ms, 2.4 s, 3 min 05 s, 2 h 07 min, 3 d 04 h. */
function duration(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms !== 0 && Math.abs(ms) < 0.1) return `${NUMBERS.format(ms * 1000)} µs`;
  if (ms < 0) return `−${duration(-ms)}`;
  if (ms < 999.5) return `${ms < 10 ? NUMBERS.format(ms) : Math.round(ms)} ms`;
  if (ms < 59950) return `${(ms / 1000).toFixed(1)} s`;
  ms = Math.max(ms, 60000); // not "0 min 59 s"
  if (ms < 3600000) return `${Math.floor(ms / 60000)} min ${String(Math.floor((ms % 60000) / 1000)).padStart(2, "0")} s`;
  if (ms < DAY) return `${Math.floor(ms / 3600000)} h ${String(Math.floor((ms % 3600000) / 60000)).padStart(2, "0")} min`;
  return `${Math.floor(ms / DAY)} d ${String(Math.floor((ms % DAY) / 3600000)).padStart(2, "0")} h`;
}
const DAY = 86400000;
const TIME_UNITS = [[DAY, "d"], [3600000, "h"], [60000, "min"], [1000, "s"], [1, "ms"], [0.001, "µs"], [0.000001, "ns"]];

/** Milliseconds in one unit, for axes: 1.5 h, 20 min. */
function shortDuration(ms) {
  if (ms === 0) return "0";
  const [size, unit] = TIME_UNITS.find(([size]) => Math.abs(ms) >= size * 0.9999) ?? TIME_UNITS.at(-1);
  return `${NUMBERS.format(ms / size)} ${unit}`;
}

/** A cost in the unit of the query's cost model. */
function costText(query, cost) {
  if (cost === null || cost === undefined) return "–";
  return query.savings.unit === "s" ? duration(1000 * cost) : figure(cost);
}

/** Stream time in UTC, with milliseconds only where there are some. */
function clock(time) {
  if (time === null || time === undefined) return "–";
  if (Math.abs(time) > 8.64e15) return `${time} ms`;
  return new Date(time).toISOString().replace("T", " ").replace(/(\.000)?Z$/, "");
}

/** A stream time as short as the span of the query allows: the time of day within one day, else with month and day, or the date. */
function shortTime(query, time) {
  const text = clock(time), first = clock(query.first_time), last = clock(query.last_time);
  if (time === null || time === undefined || text.length < 19) return text;
  if (first.slice(0, 10) === last.slice(0, 10)) return text.slice(11, 19);
  return query.last_time - query.first_time > 300 * DAY ? text.slice(0, 10) : text.slice(5, 16);
}

function plural(number, noun) {
  const ending = number === 1 ? "" : /(ch|s)$/.test(noun) ? "es" : "s";
  return `${WHOLE.format(number)} ${noun}${ending}`;
}

/** The classes that carry a plan's colour and pattern: seven colours, solid for the first seven plans, then striped, then dotted. */
function planClass(place) {
  return `plan${place % COLOURS} pattern${Math.floor(place / COLOURS) % 3}`;
}
const COLOURS = 7;
const DASHES = [undefined, [7, 3], [2, 3]]; // of lines, as the patterns of bands

const QUANTITY = String.raw`(?:\d[\d.,]*(?: (?:%|d|h|min|s|ms|µs)(?!\w))?|unknown)`, QUANTITIES = new RegExp(`(${QUANTITY}(?:(?: →)? ${QUANTITY})*)`);

/** A text whose quantities are not broken: `7 min 33 s`, `100 % → 47.8 %`. */
function unbroken(text) {
  return text.split(QUANTITIES).map((part, at) => (at % 2 ? element("span", { class: "whole" }, part) : part));
}

/** A plan's letter on its colour; the text of the plan where the mouse rests. */
function key(source, place) {
  const plan = source.plans[place];
  return element("span", { class: `key ${planClass(place)}`, title: plan.plan }, plan.letter);
}
