// Queues as a tree: what each holds, is guaranteed, deserves and may hold at most, what it borrows and can lend.

const ROOT_QUEUE = "root";

function queueTree(world) {
  const below = new Map();
  for (const queue of world.plan.queues) {
    if (!below.has(queue.parent)) below.set(queue.parent, []);
    below.get(queue.parent).push(queue);
  }
  const used = new Set(world.jobs.map((job) => job.queue));
  const rows = [];
  const walk = (parent, depth) => {
    for (const queue of below.get(parent) || []) {
      const limited = [queue.guarantee, queue.deserved, queue.capability].some((limits) => Object.keys(limits).length);
      if (limited || used.has(queue.name) || below.has(queue.name)) rows.push({ queue, depth, isLeaf: !below.has(queue.name) });
      walk(queue.name, depth + 1);
    }
  };
  walk(ROOT_QUEUE, 0);
  return rows;
}

function amountsOfQueue(queue, device) {
  const held = (queue.allocated[device] || 0) + (queue.admitted[device] || 0);
  const deserved = queue.deserved[device], guarantee = queue.guarantee[device];
  return {
    held, deserved, guarantee, most: queue.capability[device],
    borrows: deserved === undefined ? 0 : Math.max(0, held - Math.max(deserved, guarantee || 0)),
    lends: deserved === undefined ? 0 : Math.max(0, deserved - Math.max(held, guarantee || 0)),
  };
}

// Queues without queues below that borrow, or that can lend what they deserve and hold no job for: "ads 180, vision 221 GPUs".
function listOfQueues(world, device, field) {
  const rows = queueTree(world).filter((row) => row.isLeaf).map(({ queue }) => [queue.name, amountsOfQueue(queue, device)[field]]).filter(([, amount]) => amount);
  return rows.slice(0, 5).map(([name, amount]) => `${name} ${decimal(amount)}`).join(", ") + (rows.length ? ` ${unit(world, device)}` : "") + (rows.length > 5 ? ` (and ${count(rows.length - 5, "more queue")})` : "");
}

// Domains that are dedicated to a queue and hold pods of another: "sn-1 of queue training to research".
function lentDomains(world) {
  const parents = new Map(world.plan.queues.map((queue) => [queue.name, queue.parent]));
  const isBelow = (name, owner) => name === owner || (parents.has(name) && isBelow(parents.get(name), owner));
  return world.domains.filter((domain) => domain.queue).flatMap((domain) => {
    const names = new Set(nodesOf(world, domain).flatMap((node) => node.now.pods.map((place) => place.job.queue)));
    const others = [...names].filter((name) => !isBelow(name, domain.queue));
    return others.length ? [`${domain.name} of queue ${domain.queue} to ${others.join(", ")}`] : [];
  });
}

function queueSection(world) {
  const tree = queueTree(world);
  const devices = world.devices.filter((device) => tree.some(({ queue }) => {
    const amounts = amountsOfQueue(queue, device);
    return amounts.held || amounts.deserved || amounts.guarantee || amounts.most;
  }));
  return [
    h("h2", { id: "queues-title" }, "Queues"),
    devices.length ? null : h("p", {}, "No queue holds devices or has a limit for them."),
    lentDomains(world).map((text) => h("p", { class: "lead" }, `Lent while it is idle: ${text}.`)),
    devices.map((device) => [devices.length > 1 ? h("h3", {}, device) : null, h("p", { class: "lead" }, queueSentence(world, device)), queueTable(world, tree, device)]),
  ];
}

function queueSentence(world, device) {
  const borrowed = listOfQueues(world, device, "borrows"), lends = listOfQueues(world, device, "lends");
  const borrows = borrowed ? `More than they deserve, so borrowed: ${borrowed}.` : "No queue borrows.";
  return `${borrows}${lends ? ` Deserved and not used, so others may borrow it: ${lends}.` : ""}`;
}

function queueTable(world, tree, device) {
  const total = usage(world.order, device).capacity;
  const rows = tree.map((row) => ({ ...row, ...amountsOfQueue(row.queue, device) }))
    .filter((row) => row.held || row.deserved !== undefined || row.guarantee !== undefined || row.most !== undefined);
  const scale = Math.max(1, ...rows.map((row) => Math.max(row.held, row.deserved || 0, Math.min(total, row.most || 0))));
  const cell = (amount) => (amount === undefined ? "" : decimal(amount));
  const columns = [
    ["Guaranteed", (row) => cell(row.guarantee)], ["Deserves", (row) => cell(row.deserved)],
    ["Borrows", (row) => row.borrows && h("strong", { class: "borrows" }, decimal(row.borrows))], ["Can lend", (row) => row.lends && decimal(row.lends)],
    ["At most", (row) => cell(row.most)],
  ].filter(([, content]) => rows.some(content));
  const heads = [{ title: "Queue" }, { title: "Held", number: true }, { title: "" }, ...columns.map(([title]) => ({ title, number: true }))];
  return [
    table(heads, rows.map((row) => [
      h("span", { class: `indent d${Math.min(6, row.depth)}` }, h("bdi", {}, row.queue.name)),
      decimal(row.held), queueBar(row, scale), ...columns.map(([, content]) => content(row) || ""),
    ]), { label: `Queues by ${device}` }),
    h("p", { class: "hint legend" }, h("span", { class: "key" }, h("span", { class: "swatch good" }), "held"), h("span", { class: "key" }, h("span", { class: "swatch borrowed" }), "borrowed"),
      h("span", { class: "key" }, h("span", { class: "swatch line" }), "deserves"), h("span", { class: "key" }, h("span", { class: "swatch track" }), "up to at most")),
  ];
}

function queueBar(row, scale) {
  const across = (amount) => (200 * Math.min(scale, amount)) / scale;
  const own = row.deserved === undefined ? row.held : Math.min(row.held, row.deserved);
  return s("svg", { class: "queue-bar", viewBox: "0 0 200 14", preserveAspectRatio: "none", "aria-hidden": "true" },
    s("rect", { class: "track", y: 2, width: across(row.most === undefined ? scale : row.most), height: 10 }),
    s("rect", { class: "good", y: 2, width: row.held ? Math.max(1, across(own)) : 0, height: 10 }),
    row.borrows ? ["borrowed", "over stripes"].map((kind) => s("rect", { class: kind, x: across(own), y: 2, width: across(row.borrows), height: 10 })) : null,
    row.deserved === undefined ? null : s("rect", { class: "line", x: Math.max(0, across(row.deserved) - 1), width: 2, height: 14 }));
}
