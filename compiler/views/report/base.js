// Elements, texts and numbers. Text of a plan reaches the page as text nodes and attributes only, never as markup.

const SVG = "http://www.w3.org/2000/svg";
const UNSAFE = /[\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]/gu;

// The text with control and bidirectional characters escaped, so that a name cannot disguise itself.
function printable(text) {
  return String(text).replace(UNSAFE, (one) => "\\u" + one.charCodeAt(0).toString(16).padStart(4, "0"));
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : printable(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(printable(child)));
  }
  return element;
}

const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);
const COLOURS = 12; // c0 to c11 of page.css
const byId = (id) => document.getElementById(id);

const count = (number, noun) => `${decimal(number)} ${noun}${number === 1 ? "" : "s"}`;

function decimal(number) {
  const rounded = Math.abs(number) >= 100 ? Math.round(number) : Math.round(number * 100) / 100;
  const [whole, part] = String(rounded).split(".");
  return whole.replace(/\B(?=(\d{3})+$)/g, ",") + (part ? "." + part : "");
}

function amountText(resource, amount) {
  if (!/^(memory|ephemeral-storage|hugepages-|kubernetes\.io\/batch-memory)/.test(resource)) return decimal(amount);
  const units = ["B", "Ki", "Mi", "Gi", "Ti", "Pi"];
  let unit = 0;
  while (Math.abs(amount) >= 1024 && unit < units.length - 1) { amount /= 1024; unit += 1; }
  return `${decimal(amount)}${units[unit]}`;
}

const percent = (part, whole) => (whole ? `${Math.round((100 * part) / whole)}\u00a0%` : "none");

function durationText(seconds) {
  for (const [noun, size] of [["day", 86400], ["hour", 3600], ["minute", 60]]) {
    if (seconds >= 2 * size || (seconds >= size && seconds % size === 0)) return count(Math.round((10 * seconds) / size) / 10, noun);
  }
  return seconds >= 60 ? `${Math.round(seconds / 60)} minutes` : count(Math.round(seconds), "second");
}

const TICKS = [60, 300, 600, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 345600, 604800, 1209600, 2592000, 7776000, 31536000];

// Seconds between two marks of a time axis, of so many pixels for so many seconds.
const tickStep = (seconds, room) => TICKS.find((tick) => (seconds / tick) * 64 <= room) || TICKS[TICKS.length - 1];

// "2026-01-31 12:00 UTC"
const clockText = (time) => time.replace("T", " ").replace(/:\d\dZ$/, " UTC");

// Names in their order, runs of consecutive numbers as "sn-05 to 08".
function compactNames(names, most) {
  const pieces = [];
  for (let at = 0; at < names.length; ) {
    const split = /^(.*?)(\d+)$/s.exec(names[at]);
    let end = at + 1;
    while (split && end < names.length && follows(split, names[end], end - at)) end += 1;
    if (end - at >= 3) pieces.push([`${names[at]} to ${/\d+$/.exec(names[end - 1])[0]}`, end - at]);
    else for (const name of names.slice(at, end)) pieces.push([name, 1]);
    at = end;
  }
  const rest = pieces.slice(most).reduce((sum, [, size]) => sum + size, 0);
  return pieces.slice(0, most).map(([text]) => text).join(", ") + (rest ? ` and ${decimal(rest)} more` : "");
}

function follows(split, name, distance) {
  const other = /^(.*?)(\d+)$/s.exec(name);
  return other !== null && other[1] === split[1] && Number(other[2]) === Number(split[2]) + distance;
}

function columnOf(runs) {
  return runs.flatMap(([value, size]) => Array(size).fill(value));
}

// A details element whose content is made when it is first opened, or when the page is printed.
const unopened = new Set();
function folded(summary, make, open) {
  const box = h("details", { open }, h("summary", {}, summary));
  const build = () => {
    if (unopened.delete(build)) fill(box, {}, [make()]);
  };
  unopened.add(build);
  if (open) build();
  else box.addEventListener("toggle", build, { once: true });
  return box;
}

function table(heads, rows, attributes) {
  const cell = (tag, content, at) => h(tag, { class: heads[at].number ? "number" : null, scope: tag === "th" ? "col" : null, "data-head": tag === "td" && at ? heads[at].title : null }, content);
  return h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": attributes.label },
    h("table", {},
      h("thead", {}, h("tr", {}, heads.map((head, at) => cell("th", head.title, at)))),
      h("tbody", {}, rows.map((row) => h("tr", {}, row.map((content, at) => cell("td", content, at)))))));
}

// Calls draw with the width of the frame whenever that is another one; in the next frame, since drawing changes its height.
function onResize(frame, draw) {
  let width = 0;
  new ResizeObserver(() => requestAnimationFrame(() => {
    if (!frame.clientWidth || frame.clientWidth === width) return;
    width = frame.clientWidth;
    draw(width);
  })).observe(frame);
}
