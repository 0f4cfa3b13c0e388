// The page of a replay, section by section: policies, or two revisions, side by side.

const MOST_QUEUES = 12;
const data = JSON.parse(byId("plan").textContent);
const shareText = (part) => `${(100 * part).toFixed(1)}\u00a0%`;
const brief = (seconds) => {
  const [unit, size] = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]].find(([, least]) => seconds >= 2 * least) || ["s", 1];
  return `${(seconds / size).toFixed(seconds ? 1 : 0)}\u00a0${unit}`;
};
const firstCell = (name) => h("span", { class: "indent" }, h("bdi", {}, name));
const waitText = (seconds) => (seconds === null ? "-" : brief(seconds));

function put(id, content) {
  fill(byId(id), {}, [content]);
}

// Chart of one measure of each replay.
function measureChart(title, key, text, most) {
  const lines = data.replays.map((replay, at) => ({ name: replay.name, at, values: replay.curves[key] }));
  return curveChart({ title, seconds: data.replays[0].curves.seconds, text, most, lines });
}

function queueChart(queue) {
  const lines = data.replays.flatMap((replay, at) => {
    const of = replay.curves.queues[queue];
    return of ? [{ name: replay.name, at, values: of.held }, { name: `${replay.name}, deserved`, at, values: of.deserved, thin: true }] : [];
  });
  return curveChart({ title: `Queue ${queue}`, seconds: data.replays[0].curves.seconds, text: shareText, lines });
}

function headOfReplay() {
  const sizes = [...new Set(data.replays.map((replay) => replay.size))];
  return [
    h("h1", {}, h("bdi", {}, data.title)),
    h("p", { class: "about" }, sizes.join("; after: ")),
    data.assumptions.map((text) => h("p", { class: "hint" }, text)),
    data.replays.every((replay) => replay.complete) ? null : h("p", { class: "note" }, "The replay was interrupted: results cover the time until then."),
    h("p", { class: "legend" }, data.replays.map((replay, at) => lineKey(replay.name, at))),
  ];
}

function comparisonSection() {
  const found = data.comparison;
  if (!found) return null;
  const isWhole = found.basis === "whole trace";
  const heads = [{ title: "Jobs" }, { title: "Number", number: true }, { title: "Before", number: true }, { title: "After", number: true }, { title: "Difference", number: true }, { title: "Waits" }];
  const signed = (seconds) => `${seconds < 0 ? "-" : "+"}${brief(Math.abs(seconds))}`;
  const row = (name, one) => [firstCell(name), decimal(one.jobs), brief(one.before), brief(one.after), isWhole ? signed(one.low) : `${signed(one.low)} to ${signed(one.high)}`, one.waits];
  const rows = [row("all", found.all), ...Object.entries(found.byQueue).map(([name, one]) => row(`queue ${name}`, one)), ...Object.entries(found.bySize).map(([name, one]) => row(`of ${name} devices`, one))];
  const names = (verdict) => Object.entries(found.byQueue).filter(([, one]) => one.waits === verdict).map(([name]) => name).join(", ") || (isWhole ? "no queue" : "no queue for certain");
  return [
    h("h2", { id: "comparison-title" }, "Whose waits change"),
    h("p", { class: "lead" }, `Better off: ${names("shorter")}. Pays: ${names("longer")}.`),
    h("p", { class: "hint" }, isWhole ? "95th percentile of waits on the whole trace." : "95th percentile of waits. The interval of the difference holds 90 % of draws of windows of the trace."),
    table(heads, rows, { label: "Whose waits change" }),
  ];
}

function curveSection() {
  return [
    h("h2", { id: "curves-title" }, "Over time"),
    h("p", { class: "hint" }, "Point at a chart, or use its arrow keys, to read values. Times count from the start of the trace."),
    measureChart("Devices in use", "utilisation", shareText, 1),
    measureChart("Devices that waiting jobs request", "waiting", decimal),
    measureChart("Stranded devices: free while a job waits that requests no more", "stranded", decimal),
    measureChart("Share error: what queues hold less than they deserve", "shareError", shareText),
  ];
}

function waitSection() {
  const titles = ["Mean", "50th", "95th", "99th percentile", "Longest"], keys = ["mean", "p50", "p95", "p99", "longest"];
  const heads = [{ title: "Jobs" }, { title: data.comparison ? "Revision" : "Policy" }, ...["Started", ...titles, "Slowdown", "Used"].map((title) => ({ title, number: true }))];
  const row = (name, replay, one, used) => [firstCell(name), firstCell(replay.name), `${decimal(one.started)}\u00a0of\u00a0${decimal(one.jobs)}`, ...keys.map((key) => waitText(one[key])),
    one.slowdown === null ? "-" : decimal(one.slowdown), used];
  const groups = [["byQueue", (name) => `queue ${name}`], ["bySize", (name) => `of ${name} devices`], ["byPriority", (name) => `priority ${name}`]];
  const rows = groups.flatMap(([key, title]) => {
    const names = [...new Set(data.replays.flatMap((replay) => Object.keys(replay.waits[key])))];
    return names.length < 2 ? [] : names.flatMap((name) => data.replays.filter((replay) => replay.waits[key][name]).map((replay) => row(title(name), replay, replay.waits[key][name], "")));
  });
  const all = data.replays.map((replay) => row("all", replay, replay.waits.all, shareText(replay.usage.utilisation)));
  return [h("h2", { id: "waits-title" }, "Waits"), table(heads, [...all, ...rows], { label: "Waits" })];
}

function shareSection() {
  const longest = new Map();
  for (const replay of data.replays) for (const [name, share] of Object.entries(replay.shares)) longest.set(name, Math.max(longest.get(name) || 0, share.held, share.deserved));
  const queues = [...longest.keys()].sort((a, b) => longest.get(b) - longest.get(a) || (a < b ? -1 : 1));
  const heads = [{ title: "Queue" }, { title: data.comparison ? "Revision" : "Policy" }, ...["Deserved", "Held", "Share error", "Starved"].map((title) => ({ title, number: true }))];
  const rows = queues.flatMap((name) => data.replays.filter((replay) => replay.shares[name]).map((replay) => {
    const share = replay.shares[name];
    return [firstCell(name), firstCell(replay.name), shareText(share.deserved), shareText(share.held), shareText(share.error), waitText(share.starved)];
  }));
  return [
    h("h2", { id: "shares-title" }, "Shares of queues"),
    h("p", { class: "hint" }, "Means over the time in which a queue holds or requests devices, as parts of all devices. Thick: held; thin: deserved. Starved: the longest time without any device while a job of the queue waits."),
    table(heads, rows, { label: "Shares of queues" }),
    queues.slice(0, MOST_QUEUES).map(queueChart),
    queues.length > MOST_QUEUES ? folded(count(queues.length - MOST_QUEUES, "more queue"), () => queues.slice(MOST_QUEUES).map(queueChart)) : null,
  ];
}

put("head", headOfReplay());
put("comparison", comparisonSection());
put("curves", curveSection());
put("waits", waitSection());
put("shares", shareSection());
put("foot", h("p", {}, "Written by gangplan simulate."));
window.addEventListener("beforeprint", () => { for (const build of [...unopened]) build(); });
document.documentElement.dataset.ready = String(Math.round(performance.now()));
