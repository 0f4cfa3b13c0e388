// Jobs that wait: those that can never start on top and open, the others by their first reason; jobs left out; all jobs.

const LONG_LIST = 40;

function neverSection(world) {
  const jobs = world.jobs.filter((job) => job.never);
  const broken = world.plan.leftOut || [];
  if (!jobs.length && !broken.length) return [];
  return [
    jobs.length ? [
      h("h2", {}, jobs.length === 1 ? "One job can never start as written" : `${count(jobs.length, "job")} can never start as written`),
      jobs.slice(0, LONG_LIST).map((job) => h("article", { class: "alarm", id: `never-${job.at}` }, jobHead(world, job), messages(job))),
      jobs.length > LONG_LIST ? folded(`${count(jobs.length - LONG_LIST, "more job")}`, () => jobs.slice(LONG_LIST).map((job) => jobBox(world, job))) : null,
    ] : null,
    broken.length ? [
      h("h2", {}, `${count(broken.length, "job")} left out because of errors`),
      broken.slice(0, LONG_LIST).map((one) => h("article", { class: "alarm" },
        h("h3", {}, one.name ? h("bdi", {}, `${one.namespace}/${one.name}`) : one.file),
        h("ul", {}, one.diagnostics.map((each) => h("li", {}, h("code", {}, each.code), ` ${each.message} `, h("span", { class: "sources" }, `${each.file || one.file}:${each.line || 1}`)))))),
      broken.length > LONG_LIST ? h("p", {}, `and ${count(broken.length - LONG_LIST, "more job")}: gangplan check names them all`) : null,
    ] : null,
  ];
}

function evictionSection(world) {
  const victims = world.jobs.filter((job) => job.evicted);
  if (!victims.length) return [];
  const heads = [{ title: "Job" }, { title: "Queue" }, { title: "Loses" }, { title: "For" }];
  const rows = victims.slice(0, LONG_LIST).map((job) => [
    h("bdi", {}, job.title), job.queue, `${rolesText(job, job.evicted)}: ${askText(world, job, job.evicted) || "no devices"}`, compactNames(job.evictedFor, 4),
  ]);
  return [
    h("h2", {}, victims.length === 1 ? "One job loses pods to others" : `${count(victims.length, "job")} lose pods to others`),
    table(heads, rows, { label: "Evictions" }),
    victims.length > LONG_LIST ? h("p", {}, `and ${count(victims.length - LONG_LIST, "more job")}`) : null,
  ];
}

function jobHead(world, job) {
  const asks = [rolesText(job), askText(world, job), job.queue && `queue ${job.queue}`, `priority ${decimal(job.priority)}`];
  return h("h3", {}, h("bdi", {}, job.title), " ", h("small", {}, asks.filter(Boolean).join(", ")));
}

function jobBox(world, job) {
  const asks = [rolesText(job), askText(world, job), `priority ${decimal(job.priority)}`].filter(Boolean).join(", ");
  const first = job.reasons.length ? job.reasons[0].message : "no reason was found in time";
  return folded([h("bdi", { class: "name" }, job.title), h("small", {}, ` ${asks}`), h("div", { class: "first" }, first), timeText(job) ? h("div", { class: "first" }, timeText(job)) : null], () => messages(job));
}

function waitingSection(world) {
  const waiting = world.jobs.filter((job) => job.decision === "wait" && !job.never);
  const groups = new Map();
  for (const job of waiting) {
    const code = job.reasons.length ? job.reasons[0].code : "";
    const key = JSON.stringify([code, job.queue]);
    if (!groups.has(key)) groups.set(key, { code, queue: job.queue, jobs: [] });
    groups.get(key).jobs.push(job);
  }
  const sorted = [...groups.values()].sort((a, b) => b.jobs.length - a.jobs.length);
  const title = (group) => world.plan.reasonTitles[group.code] || "no reason was found in time";
  return [
    h("h2", { id: "waiting-title" }, waiting.length ? `${count(waiting.length, "job")} ${waiting.length === 1 ? "waits" : "wait"}` : "No job waits"),
    sorted.map((group) => folded(
      [h("strong", {}, count(group.jobs.length, "job")), ` of queue ${group.queue || "(none)"}: ${title(group)} `, h("code", {}, group.code)],
      () => group.jobs.map((job) => jobBox(world, job)), waiting.length <= LONG_LIST)),
  ];
}

function jobsSection(world, picture) {
  const heads = [{ title: "Job" }, { title: "What happens" }, { title: "Queue" }, { title: "Priority", number: true }, { title: "Pods" }, { title: "Asks for" }, { title: "Where" }];
  const rows = () => world.jobs.map((job) => [
    h("button", { type: "button", class: "name", onclick: () => picture.show({ job }) }, letterBadge(job), " ", h("bdi", {}, job.title)),
    decisionText(job), job.queue, decimal(job.priority), rolesText(job), askText(world, job), compactNames(job.domains.length ? job.domains : jobNodes(world, job).map((node) => node.name), 4),
  ]);
  return [h("h2", { id: "jobs-title" }, "All jobs"), folded(`${count(world.jobs.length, "job")} as a table`, () => table(heads, rows(), { label: "All jobs" }))];
}
