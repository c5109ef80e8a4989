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

/** A number for people: whole with thousands, small to three digits; "–" where it is not known. */
function figure(number) {
  if (number === null || number === undefined) return "–";
  if (number !== 0 && Math.abs(number) < 0.001) return number.toExponential(2);
  return (Math.abs(number) >= 100 || Number.isInteger(number) ? WHOLE : NUMBERS).format(number);
}

/** For axes and trees, where there is little room: 1.2K, 3M. */
function compact(number) {
  if (number === null || number === undefined) return "–";
  if (number !== 0 && Math.abs(number) < 0.001) return number.toExponential(0);
  return COMPACT.format(number);
}

function known(number) {
  return number === null || number === undefined ? "unknown" : figure(number);
}

/** Milliseconds for people: 85 ms, 2.4 s, 3 min 05 s. */
function duration(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms < 1000) return `${ms < 10 ? NUMBERS.format(ms) : Math.round(ms)} ms`;
  if (ms < 60000) return `${(ms / 1000).toFixed(1)} s`;
  if (ms < 3600000) return `${Math.floor(ms / 60000)} min ${String(Math.floor((ms % 60000) / 1000)).padStart(2, "0")} s`;
  return `${Math.floor(ms / 3600000)} h ${String(Math.floor((ms % 3600000) / 60000)).padStart(2, "0")} min`;
}

/** Stream time in UTC, with milliseconds only where there are some. */
function clock(time) {
  if (time === null || time === undefined) return "–";
  if (Math.abs(time) > 8.64e15) return `${time} ms`;
  return new Date(time).toISOString().replace("T", " ").replace(/(\.000)?Z$/, "");
}

/** The time of day of a stream time. */
function timeOfDay(time) {
  return clock(time).slice(11, 19);
}

function plural(number, noun) {
  const ending = number === 1 ? "" : /(ch|s)$/.test(noun) ? "es" : "s";
  return `${WHOLE.format(number)} ${noun}${ending}`;
}

/** The class that carries a plan's colour, by its place among the plans of its source. */
function planClass(place) {
  return `plan${place % 7}`;
}

/** A plan's letter on its colour; the text of the plan where the mouse rests. */
function key(source, place) {
  const plan = source.plans[place];
  return element("span", { class: `key ${planClass(place)}`, title: plan.plan }, plan.letter);
}
