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
  for (const domain of world.domains) if (domain.tier) tiers.set(domain.tierName, (tiers.get(domain.tierName) || 0) + 1);
  const size = [count(world.nodes.length, "node"), ...[...tiers].map(([name, number]) => count(number, name))].join(", ");
  return [
    h("h1", {}, "Plan of cluster ", h("bdi", {}, plan.cluster)),
    h("p", { class: "about" }, size, plan.now ? `; counts from ${clockText(plan.now)}` : "; of an empty cluster, since no state was given"),
    h("div", { class: "tiles" }, devices,
      tile(decimal(number("keep")), "jobs run on"), tile(decimal(number("start")), "jobs start now", "good-text"),
      number("evict") ? tile(decimal(number("evict")), "jobs are evicted", "bad-text") : null,
      tile(decimal(waiting), waiting === 1 ? "job waits" : "jobs wait", waiting ? "wait-text" : "", undefined, "#waiting"),
      tile(decimal(never), never === 1 ? "job can never start" : "jobs can never start", never ? "bad-text" : "", undefined, never ? "#never" : null),
      plan.leftOut ? tile(decimal(plan.leftOut.length), "left out for errors", "bad-text", undefined, "#never") : null),
    h("p", { class: "lead" }, nextSentence(world)),
  ];
}

function tile(value, text, kind, share, href) {
  const content = [h("span", { class: `value ${kind || ""}` }, value), h("span", {}, text), share === undefined ? null : meter(share, "good")];
  return href ? h("a", { class: "tile", href }, content) : h("div", { class: "tile" }, content);
}

function nextSentence(world) {
  const starts = world.jobs.filter((job) => job.decision === "start");
  const sizes = new Map(starts.map((job) => [job, amountsOf(world, job, job.pods).reduce((sum, [name, amount]) => (world.devices.includes(name) ? sum + amount : sum), 0)]));
  const largest = starts.sort((a, b) => sizes.get(b) - sizes.get(a) || a.at - b.at).slice(0, 3).map((job) => `${job.title} (${askText(world, job, job.pods)})`);
  const now = starts.length ? `Starts now: ${largest.join(", ")}${starts.length > 3 ? ` and ${decimal(starts.length - 3)} more` : ""}. ` : "No job starts now. ";
  const next = world.jobs.find((job) => job.decision === "wait" && (job.startsIn !== undefined || job.startsAfter));
  return `${now}${next ? `Next: ${next.title}, ${timeText(next)}.` : ""}`;
}

function clusterSection(world, picture) {
  const modes = h("fieldset", { class: "modes" }, h("legend", {}, "Colour by"), Object.entries(MODES).map(([mode, title]) => h("label", {},
    h("input", { type: "radio", name: "mode", value: mode, checked: mode === picture.mode, onchange: () => { picture.mode = mode; picture.draw(); } }), title)));
  const domains = world.domains.filter((domain) => domain.to > domain.from);
  const zoom = h("select", { id: "zoom", onchange: () => picture.zoom(zoom.value === "" ? null : world.domains[Number(zoom.value)]) },
    h("option", { value: "" }, "Whole cluster"), domains.map((domain) => h("option", { value: domain.at }, domain.tierName ? `${domain.name} (${domain.tierName})` : domain.name)));
  picture.onzoom = () => { zoom.value = picture.domain ? String(picture.domain.at) : ""; };
  return [
    h("h2", { id: "cluster-title" }, "The cluster under this plan"),
    h("p", { class: "hint" }, "A row of cells is a node, a cell is a device. Point at a cell or use the arrow keys to see what is there; click a job or a domain to look closer."),
    h("div", { class: "tools" }, searchBox(world, (found) => picture.show(found)), h("div", { class: "zoom" }, h("label", { for: "zoom" }, "Zoom to"), zoom), modes),
    picture.crumbs, picture.card, picture.frame, picture.live, picture.legend,
  ];
}

function build() {
  const plan = JSON.parse(byId("plan").textContent);
  const world = readPlan(plan);
  const picture = new Picture(world);
  const put = (id, parts) => fill(byId(id), {}, [parts]);
  put("head", headSection(world));
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
