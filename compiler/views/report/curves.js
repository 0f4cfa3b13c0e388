// Curves over time: one chart for each measure, a line for each replay, and its values at a moment that is pointed at.

const DASHES = ["", "7 3", "2 3", "9 3 2 3"]; // so that colour is never needed alone
const lineStyle = (at) => ({ class: `curve c${at % COLOURS}`, "stroke-dasharray": DASHES[at % DASHES.length] });

function lineKey(name, at) {
  const line = s("svg", { width: 34, height: 10, "aria-hidden": "true" }, s("path", { ...lineStyle(at), d: "M1 5H33" }));
  return h("span", { class: "key" }, line, h("bdi", {}, name));
}

// The least of 1, 2, 2.5 and 5 times a power of ten that is no less.
function niceAbove(value) {
  const power = 10 ** Math.floor(Math.log10(value || 1));
  return [1, 2, 2.5, 5, 10].map((step) => step * power).find((step) => step >= value * 0.999999) || 10 * power;
}

// chart: title, seconds, text(value), lines of {name, at: of its replay, values, thin}; most: of the axis, if it is known.
function curveChart(chart) {
  const frame = h("div", { class: "frame", tabindex: "0", role: "group", "aria-label": chart.title }), said = h("p", { class: "hint", "aria-live": "polite" });
  let chosen = null, width = 0;
  const show = (at) => {
    chosen = at;
    said.textContent = at === null ? "\u00a0"
      : `At ${durationText(chart.seconds[at])}: ${printable(chart.lines.map((line) => `${line.name} ${chart.text(line.values[at])}`).join(", "))}`;
    if (width) frame.replaceChildren(drawnCurves(chart, width, chosen));
  };
  const last = chart.seconds.length - 1;
  frame.addEventListener("pointermove", (event) => {
    const part = (event.clientX - frame.getBoundingClientRect().left - CURVE.left) / (width - CURVE.left - CURVE.right);
    show(Math.max(0, Math.min(last, Math.round(part * last))));
  });
  frame.addEventListener("pointerleave", () => show(null));
  frame.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    show(chosen === null ? (step > 0 ? 0 : last) : Math.max(0, Math.min(last, chosen + step)));
  });
  onResize(frame, (now) => { width = now; show(chosen); });
  show(null);
  return h("article", {}, h("h3", {}, h("bdi", {}, chart.title)), frame, said);
}

const CURVE = { left: 62, right: 12, top: 8, bottom: 22, height: 190 };

function drawnCurves(chart, width, chosen) {
  const most = chart.most || niceAbove(Math.max(...chart.lines.flatMap((line) => line.values)));
  const first = chart.seconds[0], span = Math.max(1e-9, chart.seconds[chart.seconds.length - 1] - first);
  const x = (seconds) => CURVE.left + ((width - CURVE.left - CURVE.right) * (seconds - first)) / span;
  const y = (value) => CURVE.top + (CURVE.height - CURVE.top - CURVE.bottom) * (1 - value / most);
  const made = [];
  for (const part of [0, 0.25, 0.5, 0.75, 1]) {
    made.push(s("line", { class: "tick", x1: CURVE.left, x2: width - CURVE.right, y1: y(part * most), y2: y(part * most) }));
    made.push(s("text", { class: "label", x: CURVE.left - 6, y: y(part * most) + 4, "text-anchor": "end" }, chart.text(part * most)));
  }
  const step = tickStep(span, (width - CURVE.left) / 1.5);
  for (let time = Math.ceil(first / step) * step; time <= first + span; time += step) {
    made.push(s("line", { class: "tick", x1: x(time), x2: x(time), y1: CURVE.height - CURVE.bottom, y2: CURVE.height - CURVE.bottom + 4 }));
    const anchor = x(time) > width - 40 ? "end" : "middle";
    made.push(s("text", { class: "label", x: x(time), y: CURVE.height - 4, "text-anchor": anchor }, time ? durationText(time) : "0"));
  }
  const d = (values) => values.map((value, at) => `${at ? "L" : "M"}${x(chart.seconds[at]).toFixed(1)} ${y(value).toFixed(1)}`).join("");
  for (const line of chart.lines) made.push(s("path", { ...lineStyle(line.at), class: `${lineStyle(line.at).class}${line.thin ? " thin" : ""}`, d: d(line.values) }, s("title", {}, line.name)));
  if (chosen !== null) made.push(s("line", { class: "cursor", x1: x(chart.seconds[chosen]), x2: x(chart.seconds[chosen]), y1: CURVE.top, y2: CURVE.height - CURVE.bottom }));
  return s("svg", { class: "chart", width, height: CURVE.height, viewBox: `0 0 ${width} ${CURVE.height}`, "aria-hidden": "true" }, made);
}
