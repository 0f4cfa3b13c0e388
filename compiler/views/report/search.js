// Search: jobs, nodes and domains by a part of their name.

const MOST_FOUND = 40;

function searchable(world) {
  const domains = world.domains.filter((domain) => domain.to > domain.from);
  return [
    ...world.jobs.map((job) => ({ job, name: job.title, about: `job, ${decisionText(job)}` })),
    ...domains.map((domain) => ({ domain, name: domain.name, about: domain.tierName || "domain" })),
    ...world.order.map((node) => ({ node, name: node.name, about: "node" })),
  ].map((entry) => ({ ...entry, folded: entry.name.toLowerCase() }));
}

function find(entries, text) {
  const folded = text.trim().toLowerCase();
  if (!folded) return [];
  const ranked = entries.filter((entry) => entry.folded.includes(folded));
  const rank = (entry) => (entry.folded === folded ? 0 : entry.folded.endsWith(`/${folded}`) ? 1 : entry.folded.startsWith(folded) ? 2 : 3);
  return ranked.map((entry, at) => [rank(entry), at, entry]).sort((a, b) => a[0] - b[0] || a[1] - b[1]).map((each) => each[2]);
}

function searchBox(world, choose) {
  let entries = null, found = [], active = -1; // entries: made for the first search
  const list = h("ul", { id: "found", class: "found", role: "listbox", "aria-label": "Found", hidden: true });
  const said = h("span", { class: "unseen", role: "status" });
  const input = h("input", {
    id: "search", type: "search", role: "combobox", autocomplete: "off", spellcheck: "false", placeholder: "job, node or domain",
    "aria-expanded": "false", "aria-controls": "found", "aria-autocomplete": "list",
  });
  const close = () => { list.hidden = true; input.setAttribute("aria-expanded", "false"); input.removeAttribute("aria-activedescendant"); active = -1; };
  const take = (entry) => { close(); input.value = entry.name; choose(entry); };
  const activate = (at) => {
    active = (at + list.children.length) % Math.max(1, list.children.length);
    [...list.children].forEach((each, number) => each.setAttribute("aria-selected", String(number === active)));
    if (list.children[active]) {
      input.setAttribute("aria-activedescendant", list.children[active].id);
      list.children[active].scrollIntoView({ block: "nearest" });
    }
  };
  const update = () => {
    entries = entries || searchable(world);
    const all = find(entries, input.value);
    found = all.slice(0, MOST_FOUND);
    list.replaceChildren(...found.map((entry, at) => h("li", { id: `found-${at}`, role: "option", "aria-selected": "false", onpointerdown: (event) => { event.preventDefault(); take(entry); } }, h("bdi", {}, entry.name), " ", h("small", {}, entry.about))));
    list.hidden = !found.length;
    input.setAttribute("aria-expanded", String(found.length > 0));
    said.textContent = input.value.trim() ? `${decimal(all.length)} found` : "";
    active = -1;
  };
  input.addEventListener("input", update);
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      if (list.hidden) update();
      activate(active + (event.key === "ArrowDown" ? 1 : active < 0 ? 0 : -1));
    } else if (event.key === "Enter" && found.length) take(found[Math.max(0, active)]);
    else if (event.key === "Escape") close();
    else return;
    event.preventDefault();
  });
  return h("div", { class: "search" }, h("label", { for: "search" }, "Search"), input, said, list);
}
