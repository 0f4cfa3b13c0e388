// Free room: how it is spread over nodes, and which gangs it still takes at each tier. Reserved room does not count.

const openOn = (node, device) => Math.max(0, freeOn(node, device) - node.reserved.reduce((sum, place) => sum + requested(place, device), 0));

// Sums over the first nodes of what pods of a size can take of each, so that a domain's is a difference.
function roomSums(world, device, size) {
  const sums = [0];
  for (const node of world.order) sums.push(sums[sums.length - 1] + Math.floor(openOn(node, device) / size) * size);
  return sums;
}

// Domains by tier, the tightest first: [{title, one, domains}]; at the end the whole cluster.
function tiersOf(world, device) {
  const tiers = new Map();
  for (const domain of world.domains) {
    if (!domain.tier || domain.to === domain.from) continue;
    if (!nodesOf(world, domain).some((node) => node.capacity[device])) continue;
    if (!tiers.has(domain.tier)) tiers.set(domain.tier, []);
    tiers.get(domain.tier).push(domain);
  }
  const found = [...tiers.entries()].sort((a, b) => a[0] - b[0]).map(([tier, domains]) => {
    const names = new Set(domains.map((domain) => domain.tierName));
    const noun = names.size === 1 ? domains[0].tierName : `domain of tier ${tier}`;
    return { title: `in one ${noun}`, domains };
  });
  return [...found, { title: "anywhere in the cluster", domains: [{ name: "the whole cluster", from: 0, to: world.order.length }] }];
}

function roomSection(world, picture) {
  const parts = world.devices.filter((device) => device !== "cpu" || world.devices.length === 1);
  return [
    h("h2", { id: "room-title" }, "Free room"),
    h("p", {}, "What is free once this plan is carried out. Room that is reserved for a waiting job is not counted."),
    parts.length ? null : h("p", { class: "lead" }, "There are no nodes."),
    parts.map((device) => deviceRoom(world, picture, device, parts.length > 1)),
  ];
}

function deviceRoom(world, picture, device, named) {
  const nodes = world.order.filter((node) => node.capacity[device]);
  const largest = nodes.reduce((most, node) => Math.max(most, node.capacity[device]), 0);
  const open = nodes.map((node) => openOn(node, device));
  const free = open.reduce((a, b) => a + b, 0);
  const whole = nodes.filter((node, at) => open[at] === node.capacity[device]);
  const name = unit(world, device);
  return h("div", { class: "device" },
    named ? h("h3", {}, device) : null,
    h("p", { class: "lead" }, free
      ? `${decimal(free)} of ${decimal(usage(nodes, device).capacity)} ${name} are free. ${count(whole.length, "node")} ${whole.length === 1 ? "is" : "are"} free as a whole.`
      : `No ${name} are free.`),
    free ? h("div", { class: "columns" },
      h("div", {}, h("h4", {}, `Free ${name} per node`), histogram(nodes, open, device)),
      h("div", {}, h("h4", {}, "Largest gang that still fits"), gangTable(world, device, largest))) : null,
    free ? fitQuestion(world, picture, device, largest) : null,
    free ? folded(`Free ${name} of each domain`, () => domainTable(world, device, largest)) : null);
}

function histogram(nodes, open, device) {
  const counts = new Map();
  nodes.forEach((node, at) => counts.set(open[at], (counts.get(open[at]) || 0) + 1));
  const rows = [...counts.entries()].sort((a, b) => b[0] - a[0]).slice(0, 17);
  const most = Math.max(...rows.map((row) => row[1]));
  return h("div", { class: "bars", role: "list" }, rows.map(([amount, number]) => h("div", { class: "bar-row", role: "listitem" },
    h("span", { class: "number" }, `${decimal(amount)} free`),
    meter(number / most, amount ? "good" : "plain"),
    h("span", {}, count(number, "node")))));
}

function meter(share, kind) {
  return s("svg", { class: "meter", viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" },
    s("rect", { class: "track", width: 100, height: 10 }), s("rect", { class: kind, width: Math.max(share ? 1 : 0, 100 * share), height: 10 }));
}

function gangTable(world, device, largest) {
  const sizes = [...new Set([largest, 1])].filter(Boolean);
  const sums = sizes.map((size) => roomSums(world, device, size));
  const best = (domains, sum) => domains.reduce((most, domain) => (sum[domain.to] - sum[domain.from] > most[0] ? [sum[domain.to] - sum[domain.from], domain] : most), [0, null]);
  const rows = tiersOf(world, device).map(({ title, domains }) => [title, ...sums.map((sum) => {
    const [amount, domain] = best(domains, sum);
    return domain ? [h("strong", {}, decimal(amount)), domains.length > 1 ? h("small", {}, " ", domain.name, domain.queue ? ` (only queue ${domain.queue})` : "") : null] : "none";
  })]);
  return table([{ title: "" }, ...sizes.map((size) => ({ title: `pods of ${size} ${unit(world, device, size)}` }))], rows, { label: "Largest gang by tier" });
}

// "Where would a gang of 64 GPUs fit?"
function fitQuestion(world, picture, device, largest) {
  const name = unit(world, device);
  const room = roomSums(world, device, largest)[world.order.length];
  const size = h("input", { type: "number", min: "1", value: String(Math.min(8 * largest, room) || largest), "aria-label": `${name} of the gang` });
  const steps = [];
  for (let step = 1; step < largest; step *= 2) steps.push(step);
  const pod = h("select", { "aria-label": `${name} per pod` }, [...steps, largest].map((step) => h("option", { value: step, selected: step === largest }, step)));
  const answer = h("div", { role: "status", class: "answer" });
  const update = () => {
    const each = Number(pod.value), pods = Math.ceil(Number(size.value) / each);
    const sums = roomSums(world, device, each);
    answer.replaceChildren(h("ul", {}, tiersOf(world, device).map(({ title, domains }) => {
      const fits = domains.filter((domain) => pods > 0 && sums[domain.to] - sums[domain.from] >= pods * each);
      const buttons = fits.slice(0, 6).map((domain) => domain.tier ? h("button", { type: "button", onclick: () => picture.show({ domain }) }, h("bdi", {}, domain.name), domain.queue ? ` (only queue ${domain.queue})` : "") : null);
      const more = fits.length > 6 ? ` and ${decimal(fits.length - 6)} more` : "";
      return h("li", { class: fits.length ? "yes" : "no" }, h("strong", {}, fits.length ? "Yes, " : "No, not "), title, fits.length && fits[0].tier ? [": ", buttons, more] : "");
    })));
  };
  size.addEventListener("input", update);
  pod.addEventListener("change", update);
  update();
  return h("div", { class: "question" }, h("p", {}, "Where would a gang of ", size, ` ${name}, `, pod, " per pod, fit now?"), answer,
    h("p", { class: "hint" }, `Free ${name} alone. Queues, CPUs, memory and node selectors may still say no: gangplan explain JOB gives the answer for a job.`));
}

function domainTable(world, device, largest) {
  const whole = roomSums(world, device, largest), single = roomSums(world, device, 1);
  const domains = tiersOf(world, device).slice(0, -1).flatMap((tier) => tier.domains);
  const rows = domains.map((domain) => {
    const capacity = nodesOf(world, domain).reduce((sum, node) => sum + (node.capacity[device] || 0), 0);
    const free = single[domain.to] - single[domain.from];
    return [h("bdi", {}, domain.name), domain.tierName, decimal(capacity), decimal(free), decimal((whole[domain.to] - whole[domain.from]) / largest)];
  });
  const heads = [{ title: "Domain" }, { title: "Tier" }, { title: "In all", number: true }, { title: "Free", number: true }, { title: "Nodes free as a whole", number: true }];
  return table(heads, rows, { label: "Free devices of each domain" });
}
