// The plan as cells: every node has some, each is held by one job, by other pods, reserved, closed or free.

const FREE = -1, OTHERS = -2, CLOSED = -3;
const MAX_CELLS = 64, CPU_CELLS = 8;

function readPlan(plan) {
  const domains = readDomains(plan.domains);
  const nodes = readNodes(plan);
  const jobs = plan.gangs.map((gang, at) => ({ ...gang, at, title: `${gang.namespace}/${gang.name}`, never: gang.reasons.some((reason) => reason.never) }));
  const world = { plan, domains, nodes, jobs, devices: plan.devices };
  world.nodeByName = new Map(nodes.map((node) => [node.name, node]));
  placePods(world);
  orderNodes(world);
  fillCells(world);
  for (const domain of domains) domain.parts = divide(domain);
  nameJobs(world);
  return world;
}

function readDomains(columns) {
  const domains = columns.name.map((name, at) => ({
    at, name, tier: columns.tier[at], tierName: columns.tierName[at] || `tier ${columns.tier[at]}`,
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
    const node = { at, name, leaf: leaf[at], closed: closed.has(at), capacity: {}, others: {}, pods: [], reserved: [] };
    for (const [resource, column] of capacity) if (column[at]) node.capacity[resource] = column[at];
    for (const [resource, column] of others) if (column[at]) node.others[resource] = column[at];
    node.device = plan.devices.find((device) => node.capacity[device]) || "cpu";
    return node;
  });
}

// Each node's pods: {job, role, pods, fresh}; fresh are those that do not run yet.
function placePods(world) {
  for (const job of world.jobs) {
    for (const [role, places] of Object.entries(job.pods)) {
      for (const [name, pods] of Object.entries(places)) {
        const runs = job.decision === "start" ? 0 : job.running ? ((job.running[role] || {})[name] || 0) : pods;
        world.nodeByName.get(name).pods.push({ job, role, pods, fresh: pods - runs });
      }
    }
    for (const [role, places] of Object.entries(job.reserved || {})) {
      for (const [name, pods] of Object.entries(places)) world.nodeByName.get(name).reserved.push({ job, role, pods });
    }
  }
}

const requested = (place, resource) => ((place.job.requests[place.role] || {})[resource] || 0) * place.pods;

// What the jobs of the plan and other pods hold there.
function heldOn(node, resource) {
  return node.pods.reduce((sum, place) => sum + requested(place, resource), node.others[resource] || 0);
}

const freeOn = (node, resource) => (node.closed ? 0 : Math.max(0, (node.capacity[resource] || 0) - heldOn(node, resource)));

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
    const capacity = node.capacity[node.device] || 0;
    node.size = node.device === "cpu" ? CPU_CELLS : Math.min(MAX_CELLS, capacity);
    const scale = capacity ? node.size / capacity : 0;
    node.cells = new Int32Array(node.size).fill(node.closed ? CLOSED : FREE);
    node.waits = new Int32Array(node.size).fill(-1);
    node.fresh = new Uint8Array(node.size);
    let filled = 0, amount = 0;
    const take = (owner, more, fresh) => {
      amount += more;
      const end = Math.min(node.size, Math.max(Math.round(amount * scale), filled + (more ? 1 : 0)));
      node.cells.fill(owner, filled, end);
      if (fresh) node.fresh.fill(1, filled, end);
      filled = end;
    };
    if (node.others[node.device]) take(OTHERS, node.others[node.device], false);
    for (const place of node.pods) {
      const held = requested(place, node.device);
      if (held) take(place.job.at, held, place.fresh > 0);
    }
    node.free = freeOn(node, node.device);
    for (const place of node.reserved) {
      const end = Math.min(node.size, filled + Math.round(requested(place, node.device) * scale));
      if (!node.closed) node.waits.fill(place.job.at, filled, end);
      filled = end;
    }
  }
}

// A letter and a colour for each job that has cells, in the order in which the picture shows them.
function nameJobs(world) {
  let next = 0;
  for (const node of world.order) {
    for (const place of node.pods) {
      if (place.job.letter !== undefined) continue;
      place.job.letter = letters(next);
      place.job.colour = next % COLOURS;
      next += 1;
    }
  }
  const held = [...new Set(world.jobs.filter((job) => job.letter).map((job) => job.queue))].sort();
  world.queueColour = new Map(held.map((queue, at) => [queue, at % COLOURS]));
  world.queueLetter = new Map(held.map((queue, at) => [queue, letters(at)]));
}

const COLOURS = 12;

function letters(number) {
  const last = String.fromCharCode(65 + (number % 26));
  return number < 26 ? last : letters(Math.floor(number / 26) - 1) + last;
}

const VENDORS = { "nvidia.com/gpu": "NVIDIA GPUs", "amd.com/gpu": "AMD GPUs", "metax-tech.com/gpu": "MetaX GPUs", cpu: "CPUs" };

// "GPUs" where the cluster has one kind of them, else with the vendor's name, else the resource.
function unit(world, device) {
  const gpus = world.devices.filter((name) => name.endsWith("/gpu"));
  return device.endsWith("/gpu") && gpus.length < 2 ? "GPUs" : VENDORS[device] || device;
}

function devicesOf(world, nodes) {
  return world.devices.filter((device) => nodes.some((node) => node.capacity[device]));
}

const nodesOf = (world, domain) => (domain ? world.order.slice(domain.from, domain.to) : world.order);

// Amounts of a device in some nodes: {capacity, held, free, reserved, closed}.
function usage(nodes, device) {
  const found = { capacity: 0, held: 0, free: 0, closed: 0 };
  for (const node of nodes) {
    const capacity = node.capacity[device] || 0;
    if (!capacity) continue;
    found.capacity += capacity;
    found.held += heldOn(node, device);
    found.free += freeOn(node, device);
    if (node.closed) found.closed += capacity;
  }
  return found;
}

function pathOf(world, domain) {
  const names = [];
  for (let each = domain; each; each = each.parent === null ? null : world.domains[each.parent]) names.unshift(each);
  return names;
}
