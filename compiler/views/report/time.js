// What ends and starts when: one row per job with a known time and per maintenance window, from now to the right.

const MOST_ROWS = 30;

function timeRows(world) {
  const rows = [];
  for (const window of world.plan.maintenance) {
    rows.push({ kind: "closed", name: `maintenance of ${compactNames(window.nodes.map((at) => world.nodes[at].name), 2)}`, from: Math.max(0, window.from), to: window.to, rank: 1 });
  }
  for (const job of world.jobs) {
    const length = job.duration;
    if (job.decision === "wait" && (job.startsIn !== undefined || job.startsAfter)) {
      rows.push({ kind: "reserved", name: job.title, from: job.startsIn, to: job.startsIn === undefined || length === undefined ? undefined : job.startsIn + length, rank: 0, says: timeText(job) });
    } else if (job.decision === "keep" && job.endsIn !== undefined) {
      rows.push({ kind: "runs", name: job.title, from: 0, to: job.endsIn, rank: 2, says: timeText(job) });
    } else if (job.decision === "start" && length !== undefined) {
      rows.push({ kind: "starts", name: job.title, from: 0, to: length, rank: 2, says: timeText(job) });
    }
  }
  const end = (row) => (row.to === undefined ? row.from || 0 : row.to);
  return rows.sort((a, b) => a.rank - b.rank || end(a) - end(b) || (a.name < b.name ? -1 : 1));
}

function timeSection(world) {
  const rows = timeRows(world), shown = rows.slice(0, MOST_ROWS);
  const unknown = world.jobs.filter((job) => (job.decision === "start" && job.duration === undefined) || (job.decision === "keep" && job.endsIn === undefined));
  const frame = h("div", { class: "frame gantt" });
  if (shown.length) onResize(frame, (width) => frame.replaceChildren(gantt(world, shown, width)));
  const next = world.jobs.filter((job) => job.decision === "wait" && (job.startsIn !== undefined || job.startsAfter));
  return [
    h("h2", { id: "time-title" }, "Time"),
    next.map((job) => h("p", { class: "lead" }, "Room is reserved for ", h("strong", {}, h("bdi", {}, job.title)), `: ${timeText(job)}.`)),
    next.length ? null : h("p", { class: "lead" }, "No room is reserved for a waiting job."),
    shown.length ? frame : h("p", {}, "No end is known."),
    rows.length > MOST_ROWS ? folded(`${count(rows.length - MOST_ROWS, "more row")}`, () => h("ul", {}, rows.slice(MOST_ROWS).map((row) => h("li", {}, h("bdi", {}, row.name), ` ${row.says || windowText(row)}`)))) : null,
    unknown.length ? h("p", { class: "hint" }, `${count(unknown.length, "job")} ${unknown.length === 1 ? "does not say how long it runs" : "do not say how long they run"} (annotation gangplan.dev/expected-duration).`) : null,
  ];
}

function gantt(world, rows, width) {
  const high = 22, top = 26, left = Math.min(260, Math.round(width * 0.4));
  const last = Math.max(60, ...rows.map((row) => row.to || row.from || 0)) * 1.04;
  const at = (seconds) => left + ((width - left - 8) * seconds) / last;
  const step = tickStep(last, width - left);
  const made = [], height = top + rows.length * high + 4;
  for (let time = 0; time <= last; time += step) {
    made.push(s("line", { class: "tick", x1: at(time), x2: at(time), y1: top - 6, y2: height }));
    made.push(s("text", { class: "label", x: at(time), y: top - 10, "text-anchor": !time ? "start" : at(time) > width - 24 ? "end" : "middle" }, time ? durationText(time) : "now"));
  }
  rows.forEach((row, number) => {
    const y = top + number * high;
    made.push(s("text", { class: "row", x: 0, y: y + 14 }, fitted(row.name, left - 8, "row")));
    const from = row.from === undefined ? at(0) : at(row.from), end = row.to === undefined ? width - 8 : at(row.to);
    const bar = s("rect", { class: row.kind, x: from, y: y + 3, width: Math.max(3, end - from), height: high - 7, rx: 2 }, s("title", {}, `${row.name}: ${row.says || windowText(row)}`));
    made.push(bar);
    const texture = { closed: "cross", reserved: "stripes", starts: "", runs: "" }[row.kind];
    if (texture) made.push(s("rect", { class: `over ${texture}`, x: from, y: y + 3, width: Math.max(3, end - from), height: high - 7 }));
    const word = { closed: "maintenance", reserved: row.from === undefined ? "when is not known" : "waits, then runs", starts: "starts now", runs: "runs" }[row.kind];
    const room = word.length * 6.5;
    if (end - from > room) made.push(s("text", { class: "inside", x: from + 5, y: y + 15 }, word));
    else if (from - left > room) made.push(s("text", { x: from - 5, y: y + 15, "text-anchor": "end" }, word));
    else if (width - end > room) made.push(s("text", { x: end + 5, y: y + 15 }, word));
  });
  return s("svg", { class: "chart", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": rows.map((row) => `${row.name}: ${row.says || windowText(row)}`).join(". ") }, made);
}
