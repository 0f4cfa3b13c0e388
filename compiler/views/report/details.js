// What is said of a node, of a domain and of a job.

const DECISIONS = { start: "starts now", keep: "runs", wait: "waits", evict: "is evicted", done: "is finished", empty: "has no pods", gone: "is removed by the change" };

function decisionText(job) {
  if (job.never) return "can never start as written";
  if (job.decision === "keep" && job.before && podTotal(job.pods) > podTotal(job.before)) return "runs and gets more pods";
  if (job.decision === "keep" && job.evicted) return "runs and loses pods";
  return DECISIONS[job.decision];
}

// What a reconciler that serves the page adds: history is that of its status, "Job team/train" -> changes.
const reported = { history: {}, titles: {} };

const historyLines = (rows) => rows.map((row) => h("div", {}, [`${clockText(row.since)}: ${DECISIONS[row.decision] || row.decision}`,
  ...row.codes.map((code) => [code, reported.titles[code]].filter(Boolean).join(" "))].join("; ")));

const podTotal = (pods) => Object.values(pods || {}).reduce((sum, places) => sum + Object.values(places).reduce((a, b) => a + b, 0), 0);

// What the pods of a job hold, or all that it asks for where none are given: [[resource, amount], ...], devices first.
function amountsOf(world, job, pods) {
  const sums = new Map();
  for (const [role, request] of Object.entries(job.requests)) {
    const number = pods ? Object.values(pods[role] || {}).reduce((a, b) => a + b, 0) : job.replicas[role];
    for (const [resource, amount] of Object.entries(request)) sums.set(resource, (sums.get(resource) || 0) + amount * number);
  }
  const leading = [...world.devices, "cpu", "memory"].filter((name) => sums.get(name));
  return leading.map((name) => [name, sums.get(name)]);
}

// "64 nvidia.com/gpu"; CPUs only where it asks for no device.
function askText(world, job, pods) {
  const amounts = amountsOf(world, job, pods);
  const devices = amounts.filter(([name]) => world.devices.includes(name) && name !== "cpu");
  return (devices.length ? devices : amounts.slice(0, 1)).map(([name, amount]) => `${amountText(name, amount)} ${unit(world, name, amount)}`).join(", ");
}

function rolesText(job, pods) {
  const counts = Object.entries(pods || job.replicas).map(([role, places]) => [role, pods ? podTotal({ role: places }) : places]);
  return counts.filter(([, number]) => number).map(([role, number]) => `${decimal(number)} ${role}`).join(" + ") || "no pods";
}

function placeText(world, node) {
  return pathOf(world, node.domain).map((domain) => domain.name).join(" > ");
}

function nodeLines(world, node, phase) {
  const lines = [], isPast = phase === "past";
  const name = unit(world, node.device), capacity = node.capacity[node.device] || 0;
  if (node.closed) lines.push("closed: cordoned or not ready, takes no pods for now");
  lines.push(`${decimal(freeOn(node, node.device, phase))} of ${decimal(capacity)} ${name} free`);
  for (const place of node[phase].pods) {
    const held = requested(place, node.device), changes = isPast ? "leave" : "start";
    const fresh = place.fresh ? (place.fresh === place.pods ? `, ${changes}${place.pods === 1 ? "s" : ""} now` : `, ${place.fresh} ${changes} now`) : "";
    lines.push(`${place.job.letter}: ${place.job.title}: ${count(place.pods, "pod")} of ${place.role}${held ? `, ${decimal(held)} ${unit(world, node.device, held)}` : ""}${fresh}`);
  }
  if (node.others[node.device]) lines.push(`pods of no job of the plan: ${decimal(node.others[node.device])} ${name}`);
  const owned = pathOf(world, node.domain).find((domain) => domain.queue);
  if (owned) lines.push(`${owned.name} is dedicated to queue ${owned.queue}: no other job gets new pods there`);
  if (!isPast) for (const place of node.reserved) lines.push(`reserved for ${place.job.title}: ${count(place.pods, "pod")}`);
  for (const window of world.plan.maintenance) {
    if (window.nodes.includes(node.at)) lines.push(`maintenance ${windowText(window)}`);
  }
  return lines;
}

const windowText = (window) => (window.from <= 0 ? `now, for another ${durationText(window.to)}` : `in ${durationText(window.from)}, for ${durationText(window.to - window.from)}`);

function domainText(world, domain, phase = "now") {
  const nodes = nodesOf(world, domain);
  const texts = devicesOf(world, nodes).map((device) => {
    const used = usage(nodes, device, phase);
    if (phase === "past") return `${decimal(used.held)} of ${decimal(used.capacity)} ${unit(world, device)} used, ${decimal(used.free)} free`;
    const kept = used.free - nodes.reduce((sum, node) => sum + openOn(node, device), 0);
    return `${decimal(used.held)} of ${decimal(used.capacity)} ${unit(world, device)} used, ${decimal(used.free)} free${kept ? ` (${decimal(kept)} of them reserved)` : ""}`;
  });
  return texts.join("; ") || count(nodes.length, "node");
}

function jobNodes(world, job) {
  const names = new Set(Object.values(job.pods).flatMap((places) => Object.keys(places)));
  return world.order.filter((node) => names.has(node.name));
}

function jobCard(world, job) {
  const nodes = jobNodes(world, job), changes = reported.history[`${job.kind} ${job.title}`];
  const rows = [
    ["What happens", decisionText(job)],
    ["Queue", job.queue || "none"],
    ["Priority", decimal(job.priority)],
    ["Asks for", `${rolesText(job)}: ${askText(world, job) || "nothing"}`],
    podTotal(job.pods) && ["Gets", `${rolesText(job, job.pods)}: ${askText(world, job, job.pods) || "no devices"}`],
    nodes.length && ["Nodes", `${compactNames(nodes.map((node) => node.name), 8)} (${decimal(nodes.length)})`],
    job.domains.length && ["Domains", compactNames(job.domains, 8)],
    job.evicted && ["Loses", `${rolesText(job, job.evicted)}, for ${job.evictedFor.join(", ")}`],
    timeText(job) && ["Time", timeText(job)],
    changes && ["Changes", historyLines(changes)],
    job.bound === false && ["Binding", "its own scheduler places the pods; the plan keeps room for them"],
  ];
  return [
    h("h3", {}, letterBadge(job), " ", h("bdi", {}, job.title), " ", h("small", {}, job.kind)),
    h("dl", {}, rows.filter(Boolean).map(([name, text]) => [h("dt", {}, name), h("dd", {}, text)])),
    job.reasons.length || job.repairs.length ? messages(job) : null,
  ];
}

function timeText(job) {
  const texts = [];
  if (job.startsAt) texts.push(`expected to start about ${clockText(job.startsAt)}`);
  else if (job.startsIn !== undefined) texts.push(`expected to start in about ${durationText(job.startsIn)}`);
  if (job.startWindow) texts.push(`between ${clockText(job.startWindow.earliest)} and ${clockText(job.startWindow.latest)} (${job.startWindow.share ? `${job.startWindow.share} %` : "a first estimate"})`);
  if (job.startsAfter) texts.push(`after ${job.startsAfter.slice(0, 4).join(", ")}${job.startsAfter.length > 4 ? ` and ${job.startsAfter.length - 4} more` : ""}`);
  if (job.endsIn !== undefined) texts.push(`expected to end in about ${durationText(job.endsIn)}`);
  else if (job.duration !== undefined) texts.push(`expected to run for ${durationText(job.duration)}`);
  return texts.join(", ");
}

const letterBadge = (job) => (job.letter ? h("span", { class: `badge c${job.colour}`, "aria-hidden": "true" }, job.letter) : null);

// Why a job waits, and what would help.
function messages(job) {
  const item = (message) => h("li", {}, h("code", {}, message.code), " ", message.message, message.at ? ` (until ${clockText(message.at)})` : "", sourcesOf(message));
  return h("div", { class: "messages" },
    job.reasons.length ? [h("h4", {}, "Why"), h("ul", {}, job.reasons.map(item))] : null,
    job.repairs.length ? [h("h4", {}, job.repairs.length > 1 ? "Any one of these would help" : "This would help"), h("ul", {}, job.repairs.map(item))] : null,
    job.held ? h("p", {}, "The job is not created for now: its queue's share cannot take it and goes to others.") : null);
}

function sourcesOf(message) {
  if (!message.from) return null;
  const texts = message.from.map((source) => `${source.object}${source.field ? `, ${source.field}` : ""}${source.file ? ` (${source.file}:${source.line})` : ""}`);
  return h("div", { class: "sources" }, texts.join("; "), message.moreSources ? ` and ${message.moreSources} more` : "");
}
