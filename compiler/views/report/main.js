// The page, section by section.

function headSection(world) {
  const plan = world.plan, jobs = world.jobs;
  const number = (decision) => jobs.filter((job) => job.decision === decision).length;
  const never = jobs.filter((job) => job.never).length, waiting = number("wait") - never;
  const devices = world.devices.map((device) => {
    const used = usage(world.order, device);
    return tile(`${decimal(used.held)} of ${decimal(used.capacity)}`, `${unit(world, device)} used, ${percent(used.held, used.capacity)}`, "", used.held / (used.capacity || 1));
  });
  const tiers = new Map();
  for (const { tier, tierName } of world.domains) if (tier) {
    const key = JSON.stringify([tier, tierName]);
    tiers.set(key, { name: tierName, tier, number: (tiers.has(key) ? tiers.get(key).number : 0) + 1 });
  }
  const size = [count(world.nodes.length, "node"), ...[...tiers.values()].map(({ name, tier, number }) => `${decimal(number)} ${name} (tier ${tier})`)].join(", ");
  return [
    h("h1", {}, "Plan of cluster ", h("bdi", {}, plan.cluster)),
    h("p", { class: "about" }, size, plan.now ? `; counts from ${clockText(plan.now)}` : "", world.hasPast || plan.now ? "" : "; of an empty cluster, since no state was given"),
    h("div", { class: "tiles" }, devices,
      jobTile(number("keep"), "runs on", "run on"), jobTile(number("start"), "starts now", "start now", "good-text"),
      number("evict") ? jobTile(number("evict"), "is evicted", "are evicted", "bad-text", "#evictions") : null,
      jobTile(waiting, "waits", "wait", waiting ? "wait-text" : "", "#waiting"),
      jobTile(never, "can never start", "can never start", never ? "bad-text" : "", never ? "#never" : null),
      plan.leftOut ? tile(decimal(plan.leftOut.length), "left out for errors", "bad-text", undefined, "#never") : null),
    h("dl", { class: "glance" }, glance(world).map(([title, href, text]) => [h("dt", {}, href ? h("a", { href }, title) : title), h("dd", {}, text)])),
  ];
}

function tile(value, text, kind, share, href) {
  const content = [h("span", { class: `value ${kind || ""}` }, value), h("span", {}, text), share === undefined ? null : meter(share, "good")];
  return href ? h("a", { class: "tile", href }, content) : h("div", { class: "tile" }, content);
}

const jobTile = (number, one, several, kind, href) => tile(decimal(number), `job${number === 1 ? ` ${one}` : `s ${several}`}`, kind, undefined, href);

const MOST_JOBS = 3; // named in a line of the head

// The answers that most people open the page for: [title, where more is said, text].
function glance(world) {
  const job = (decision) => world.jobs.filter((each) => each.decision === decision);
  const waiting = job("wait").filter((each) => !each.never), never = world.jobs.filter((each) => each.never);
  const next = waiting.filter((each) => each.startsIn !== undefined || each.startsAfter);
  const named = (each, text) => [h("strong", {}, h("bdi", {}, each.title)), `: ${text}`];
  const why = (each) => named(each, each.reasons.length ? each.reasons[0].message : "no reason was found in time");
  const device = world.devices[0];
  return [
    ["Starts now", null, startsText(world, job("start"))],
    ["Starts next", "#time", next.length ? named(next[0], timeText(next[0])) : waiting.length ? "no start of a waiting job is known" : "no job waits"],
    waiting.length && ["Waits", "#waiting", someOf(waiting, why)],
    never.length && ["Can never start", "#never", someOf(never, why)],
    ["Borrows", "#queues", borrowText(world)],
    device && device !== "cpu" && ["Largest gang that fits", "#room", roomText(world, device)],
  ].filter(Boolean);
}

function startsText(world, starts) {
  const size = (job) => amountsOf(world, job, job.pods).reduce((sum, [name, amount]) => (world.devices.includes(name) ? sum + amount : sum), 0);
  const sizes = new Map(starts.map((job) => [job, size(job)]));
  const largest = [...starts].sort((a, b) => sizes.get(b) - sizes.get(a) || a.at - b.at).slice(0, MOST_JOBS);
  const rest = starts.length - largest.length;
  return starts.length ? largest.map((job) => `${job.title} (${askText(world, job, job.pods)})`).join(", ") + (rest ? ` and ${decimal(rest)} more` : "") : "no job";
}

function someOf(jobs, text) {
  const rest = jobs.length - MOST_JOBS;
  return [...jobs.slice(0, MOST_JOBS).map((job) => h("div", {}, text(job))), rest > 0 ? h("div", {}, `and ${count(rest, "more job")}`) : null];
}

function borrowText(world) {
  const found = world.devices.map((device) => listOfQueues(world, device, "borrows")).filter(Boolean).map((text) => `${text} more than deserved`);
  const lent = lentDomains(world).slice(0, MOST_JOBS).map((text) => `lent: ${text}`);
  return [...found, ...lent].join("; ") || "no queue";
}

// "64 NVIDIA GPUs in one sn (h100-sn-07 and 4 more), 272 in one spine (h100-spine-3), 352 anywhere".
function roomText(world, device) {
  const nodes = world.order.filter((node) => node.capacity[device]);
  const sums = roomSums(world, device, nodes.reduce((most, node) => Math.max(most, node.capacity[device]), 0));
  const texts = tiersOf(world, device).map(({ title, domains }) => {
    const room = domains.map((domain) => sums[domain.to] - sums[domain.from]), most = room.reduce((a, b) => Math.max(a, b), 0);
    const best = domains.filter((domain, at) => room[at] === most), rest = best.length > 1 ? ` and ${decimal(best.length - 1)} more` : "";
    const where = `${best[0].name}${best[0].queue ? `, only for queue ${best[0].queue}` : ""}${rest}`;
    return [most, `${decimal(most)} ${unit(world, device, most)} ${title}${most && domains.length > 1 ? ` (${where})` : ""}`];
  });
  const free = roomSums(world, device, 1)[world.order.length];
  return texts.some(([most]) => most) ? `${texts.map(([, text]) => text).join(", ")}; of whole nodes` : free ? `none of whole nodes; free on parts of nodes: ${decimal(free)} ${unit(world, device, free)}` : `no ${unit(world, device)} are free`;
}

function clusterSection(world, picture) {
  const modes = h("fieldset", { class: "modes" }, h("legend", {}, "Colour by"), Object.entries(MODES).map(([mode, title]) => h("label", {},
    h("input", { type: "radio", name: "mode", value: mode, checked: mode === picture.mode, onchange: () => picture.recolour(mode) }), title)));
  const domains = world.domains.filter((domain) => domain.to > domain.from);
  const zoom = h("select", { id: "zoom", onchange: () => picture.zoom(zoom.value === "" ? null : world.domains[Number(zoom.value)]) },
    h("option", { value: "" }, "Whole cluster"), domains.map((domain) => h("option", { value: domain.at }, domain.tierName ? `${domain.name} (${domain.tierName})` : domain.name)));
  picture.onzoom = () => { zoom.value = picture.domain ? String(picture.domain.at) : ""; };
  return [
    h("h2", { id: "cluster-title" }, "The cluster under this plan"),
    h("p", { class: "hint" }, "A row of cells is a node, a cell is a device. Point at a cell or use the arrow keys to see what is there; click a job or a domain to look closer."),
    h("div", { class: "tools" }, searchBox(world, (found) => picture.show(found)), h("div", { class: "zoom" }, h("label", { for: "zoom" }, "Zoom to"), zoom), modes),
    picture.crumbs, picture.card, picture.twin ? twoPictures(world, picture) : picture.frame, picture.live, picture.legend,
  ];
}

// The cluster under the plan, and next to it as it was before.
function twoPictures(world, picture) {
  const past = h("figure", {}, h("figcaption", {}, world.plan.base ? ["Before: ", h("bdi", {}, world.plan.base.name)] : "Before: what runs now"), picture.twin.frame, picture.twin.live);
  const pair = h("div", { class: "pair" }, past, h("figure", {}, h("figcaption", {}, "Under this plan"), picture.frame));
  const box = h("input", { type: "checkbox", checked: Boolean(world.plan.base || world.plan.crop), onchange: () => show() });
  const show = () => {
    picture.showsTwin = box.checked;
    pair.classList.toggle("single", !box.checked);
    if (picture.layout) picture.draw();
  };
  show();
  return [h("label", { class: "both" }, box, " Show the cluster before the plan as well"), pair];
}

// What a change of the repository does to jobs, by what it does.
function changeSection(world) {
  if (!world.plan.base) return [];
  const changes = world.plan.base.changes, groups = new Map();
  for (const change of changes) groups.set(change.change, [...(groups.get(change.change) || []), change]);
  const rows = (group) => group.map((change) => [h("bdi", {}, change.name), change.queue, change.why]);
  return [
    h("h2", {}, changes.length ? `${count(changes.length, "job")} ${changes.length === 1 ? "changes" : "change"} from ` : "No job changes from ", h("bdi", {}, world.plan.base.name)),
    [...groups.values()].map((group) => folded([h("strong", {}, count(group.length, "job")), `: ${group.length === 1 ? group[0].verb : group[0].verbs}`],
      () => table([{ title: "Job" }, { title: "Queue" }, { title: "Why" }], rows(group), { label: group[0].verb }), changes.length <= LONG_LIST)),
  ];
}

const SECTIONS = ["head", "changes", "never", "evictions", "cluster", "room", "queues", "waiting", "time", "jobs", "proof", "foot"];

// For a page of documentation: some sections, without what only helps in a large cluster.
function crop(plan) {
  if (!plan.crop) return;
  document.body.classList.add("cropped");
  for (const id of SECTIONS) if (!plan.crop.sections.includes(id)) byId(id).hidden = true;
}

function build() {
  const plan = JSON.parse(byId("plan").textContent);
  const world = readPlan(plan);
  reported.titles = plan.reasonTitles;
  const picture = new Picture(world, "now", null);
  crop(plan);
  if (world.hasPast) picture.twin = new Picture(world, "past", picture);
  const put = (id, parts) => fill(byId(id), {}, [parts]);
  put("head", headSection(world));
  put("changes", changeSection(world));
  put("never", neverSection(world));
  put("evictions", evictionSection(world));
  put("cluster", clusterSection(world, picture));
  picture.draw();
  put("room", roomSection(world, picture));
  put("queues", queueSection(world));
  put("waiting", waitingSection(world));
  put("time", timeSection(world));
  put("jobs", jobsSection(world, picture));
  put("proof", proofSection(world));
  put("foot", [h("p", {}, `gangplan, input ${plan.digest}`)]);
  window.addEventListener("beforeprint", () => {
    [...unopened].forEach((make) => make());
    document.querySelectorAll("#waiting details, #proof details").forEach((box) => { box.open = true; });
  });
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
}

build();
