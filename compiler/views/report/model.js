// The plan as cells: every node has some, each is held by one job, by other pods, reserved, closed or free.

const FREE = -1, OTHERS = -2, CLOSED = -3;
const MAX_CELLS = 64, CPU_CELLS = 8;

function readPlan(plan) {
  const domains = readDomains(plan.domains);
  const nodes = readNodes(plan);
  const gone = plan.base ? plan.base.gone : [];
  const jobs = [...plan.gangs, ...gone].map((gang, at) => ({ ...gang, at, title: `${gang.namespace}/${gang.name}`, never: gang.reasons.some((reason) => reason.never) }));
  const world = { plan, domains, nodes, jobs, devices: plan.devices };
  world.nodeByName = new Map(nodes.map((node) => [node.name, node]));
  placePods(world);
  world.hasPast = jobs.some((job) => podTotal(job.past));
  orderNodes(world);
  fillCells(world);
  for (const domain of domains) domain.parts = divide(domain);
  nameJobs(world);
  return world;
}

function readDomains(columns) {
  const domains = columns.name.map((name, at) => ({
    at, name, tier: columns.tier[at], tierName: columns.tierName[at] || "hypernode",
    parent: columns.parent[at], children: [], own: [], from: 0, to: 0,
  }));
  for (const [at, queue] of columns.dedicated) domains[at].queue = queue;
  for (const domain of domains) if (domain.parent !== null) domains[domain.parent].children.push(domain);
  return domains;
}

function readNodes(plan) {
  const columns = plan.nodes, closed = new Set(columns.closed);
  const leaf = columnOf(columns.domain);
  const capacity = Object.entries(columns.capacity).map(([name, runs]) => [name, columnOf(runs)]);
  const others = Object.entries(columns.others).map(([name, runs]) => [name, columnOf(runs)]);
  return columns.name.map((name, at) => {
    const node = { at, name, leaf: leaf[at], closed: closed.has(at), capacity: {}, others: {}, now: { pods: [], held: {} }, past: { pods: [], held: {} }, reserved: [] };
    for (const [resource, column] of capacity) if (column[at]) node.capacity[resource] = column[at];
    for (const [resource, column] of others) if (column[at]) node.others[resource] = column[at];
    node.device = plan.devices.find((device) => node.capacity[device]) || "cpu";
    return node;
  });
}

// Each node's pods, before the plan (past) and under it (now): {job, role, pods, fresh}. fresh are those that start now,
// or that leave.
function placePods(world) {
  for (const job of world.jobs) {
    job.past = job.before || (job.decision === "start" ? {} : job.pods);
    const on = (pods, role, name) => (pods[role] || {})[name] || 0;
    for (const [phase, pods, others] of [["now", job.pods, job.past], ["past", job.past, job.pods]]) {
      for (const [role, places] of Object.entries(pods)) {
        for (const [name, number] of Object.entries(places)) {
          const node = world.nodeByName.get(name);
          if (node) node[phase].pods.push({ job, role, pods: number, fresh: Math.max(0, number - on(others, role, name)) });
        }
      }
    }
    for (const [role, places] of Object.entries(job.reserved || {})) {
      for (const [name, pods] of Object.entries(places)) world.nodeByName.get(name).reserved.push({ job, role, pods });
    }
  }
}

const requested = (place, resource) => ((place.job.requests[place.role] || {})[resource] || 0) * place.pods;

// What the jobs of the plan and other pods hold there.
function heldOn(node, resource, phase = "now") {
  const { pods, held } = node[phase];
  if (held[resource] === undefined) held[resource] = pods.reduce((sum, place) => sum + requested(place, resource), node.others[resource] || 0);
  return held[resource];
}

const freeOn = (node, resource, phase = "now") => (node.closed ? 0 : Math.max(0, (node.capacity[resource] || 0) - heldOn(node, resource, phase)));

// Nodes in the order of the tree, so that each domain is a range of them. The last domain holds nodes outside the topology.
function orderNodes(world) {
  const outside = { at: world.domains.length, name: world.domains.length ? "outside the topology" : "all nodes", tier: 0, tierName: "", parent: null, children: [], own: [] };
  for (const node of world.nodes) (node.leaf === null ? outside : world.domains[node.leaf]).own.push(node);
  world.order = [];
  const walk = (domain) => {
    domain.from = world.order.length;
    domain.children.forEach(walk);
    world.order.push(...domain.own);
    domain.to = world.order.length;
  };
  world.roots = world.domains.filter((domain) => domain.parent === null);
  if (outside.own.length) { world.domains.push(outside); world.roots.push(outside); }
  world.roots.forEach(walk);
  world.order.forEach((node, position) => { node.position = position; });
  for (const domain of world.domains) for (const node of domain.own) node.domain = domain;
}

function fillCells(world) {
  for (const node of world.order) {
    node.size = node.device === "cpu" ? CPU_CELLS : Math.min(MAX_CELLS, node.capacity[node.device] || 0);
    node.free = freeOn(node, node.device);
    fillSide(node, node.now, node.reserved);
  }
}

// The cells before the plan, which are made when they are first shown.
function fillPast(world) {
  if (world.pastFilled) return;
  world.pastFilled = true;
  for (const node of world.order) fillSide(node, node.past, []);
}

// The owner of each cell, for whom a free one is reserved, and which start or leave now.
function fillSide(node, side, reserved) {
  const capacity = node.capacity[node.device] || 0, scale = capacity ? node.size / capacity : 0;
  side.cells = new Int32Array(node.size).fill(node.closed ? CLOSED : FREE);
  side.waits = new Int32Array(node.size).fill(-1);
  side.fresh = new Uint8Array(node.size);
  let filled = 0, amount = 0;
  const take = (owner, more, fresh) => {
    if (!more) return;
    amount += more;
    const end = Math.min(node.size, Math.max(Math.round(amount * scale), filled + 1));
    side.cells.fill(owner, filled, end);
    if (fresh) side.fresh.fill(1, filled, end);
    filled = end;
  };
  take(OTHERS, node.others[node.device], false);
  for (const place of side.pods) {
    const each = requested(place, node.device) / place.pods;
    take(place.job.at, each * (place.pods - place.fresh), false);
    take(place.job.at, each * place.fresh, true);
  }
  for (const place of reserved) {
    const end = Math.min(node.size, filled + Math.round(requested(place, node.device) * scale));
    if (!node.closed) side.waits.fill(place.job.at, filled, end);
    filled = end;
  }
}

// A letter and a colour for each job that has cells, in the order in which the picture shows them.
function nameJobs(world) {
  let next = 0;
  for (const phase of world.hasPast ? ["now", "past"] : ["now"]) for (const node of world.order) {
    for (const { job } of node[phase].pods) {
      if (job.letter !== undefined) continue;
      job.letter = letters(next);
      job.colour = next % COLOURS;
      next += 1;
    }
  }
  const held = [...new Set(world.jobs.filter((job) => job.letter).map((job) => job.queue))].sort();
  world.queueColour = new Map(held.map((queue, at) => [queue, at % COLOURS]));
  world.queueLetter = new Map(held.map((queue, at) => [queue, letters(at)]));
}

function letters(number) {
  const last = String.fromCharCode(65 + (number % 26));
  return number < 26 ? last : letters(Math.floor(number / 26) - 1) + last;
}

const VENDORS = { "nvidia.com/gpu": "NVIDIA GPUs", "amd.com/gpu": "AMD GPUs", "metax-tech.com/gpu": "MetaX GPUs", cpu: "CPUs" };

// "GPUs" where the cluster has one kind of them, else with the vendor's name, else the resource; "GPU" of one.
function unit(world, device, amount) {
  const gpus = world.devices.filter((name) => name.endsWith("/gpu"));
  const name = device.endsWith("/gpu") && gpus.length < 2 ? "GPUs" : VENDORS[device];
  return name ? name.slice(0, amount === 1 ? -1 : undefined) : device;
}

function devicesOf(world, nodes) {
  return world.devices.filter((device) => nodes.some((node) => node.capacity[device]));
}

const nodesOf = (world, domain) => (domain ? world.order.slice(domain.from, domain.to) : world.order);

// Amounts of a device in some nodes: {capacity, held, free, reserved, closed}.
function usage(nodes, device, phase = "now") {
  const found = { capacity: 0, held: 0, free: 0, closed: 0 };
  for (const node of nodes) {
    const capacity = node.capacity[device] || 0;
    if (!capacity) continue;
    found.capacity += capacity;
    found.held += heldOn(node, device, phase);
    found.free += freeOn(node, device, phase);
    if (node.closed) found.closed += capacity;
  }
  return found;
}

function pathOf(world, domain) {
  const names = [];
  for (let each = domain; each; each = each.parent === null ? null : world.domains[each.parent]) names.unshift(each);
  return names;
}
