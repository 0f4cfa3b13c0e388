// The picture of the cluster: one path for each colour, hit testing by arithmetic, pointer and keyboard alike.

const MODES = { job: "Job", queue: "Queue", state: "What happens", free: "Free room" };
const HELP = "Picture of the cluster, a row of cells for each node. Arrow keys go to the next node, page keys to the next supernode. "
  + "Enter shows a job of the node, and once more the next one, Z zooms in, Escape zooms out.";

class Picture {
  // phase: "now" under the plan, or "past" before it. leader: the picture next to it, which decides what both show.
  constructor(world, phase, leader) {
    Object.assign(this, { world, phase, leader, twin: null, showsTwin: false });
    this.domain = null;
    this.mode = world.plan.crop ? world.plan.crop.mode : world.plan.base ? "state" : "job";
    this.job = null;
    this.node = null;
    const label = phase === "past" ? `Before. ${HELP}` : HELP;
    this.svg = s("svg", { class: "picture", tabindex: "0", role: "application", "aria-roledescription": "cluster picture", "aria-label": label });
    this.tip = h("div", { class: "tip", hidden: true, "aria-hidden": "true" });
    this.live = h("p", { class: "unseen", role: "status", "aria-live": "polite" });
    this.frame = h("div", { class: "frame" }, this.svg, this.tip);
    this.card = h("aside", { class: "card", "aria-label": "Details", "aria-live": "polite" });
    this.legend = h("div", { class: "legend" });
    this.crumbs = h("nav", { class: "crumbs", "aria-label": "Where the picture is" });
    this.listen();
  }

  listen() {
    this.svg.addEventListener("pointermove", (event) => this.point(event));
    this.svg.addEventListener("pointerleave", () => this.unpoint());
    this.svg.addEventListener("click", (event) => this.click(event));
    this.svg.addEventListener("keydown", (event) => this.key(event));
    this.svg.addEventListener("focus", () => { if (this.svg.matches(":focus-visible")) this.goTo(this.node || this.first()); });
    this.svg.addEventListener("blur", () => this.unpoint());
    onResize(this.frame, (width) => { if (!this.layout || width !== this.drawnWidth) this.draw(); });
  }

  first() { return nodesOf(this.world, this.domain)[0]; }

  // ---- drawing

  draw() {
    if (this.phase === "past") fillPast(this.world);
    const width = this.drawnWidth = Math.max(200, this.frame.clientWidth);
    const layout = this.layout = layOut(this.world, this.domain, width, heightFor(width));
    this.svg.setAttribute("viewBox", `0 0 ${width} ${layout.height + 2}`);
    this.svg.setAttribute("width", width);
    this.svg.setAttribute("height", layout.height + 2);
    const paths = this.paths();
    const patternsLast = (a, b) => a.startsWith("over") - b.startsWith("over") || (a < b ? -1 : 1);
    this.drawnClasses = new Set(paths.keys());
    const drawn = [...paths.keys()].sort(patternsLast).map((key) => s("path", { class: key, d: paths.get(key).join("") }));
    this.marks = s("g", { class: "marks" });
    this.svg.replaceChildren(textures(), s("g", { class: "cells" }, drawn), this.marks, s("g", { class: "texts" }, this.texts()));
    this.mark();
    if (this.twin) {
      Object.assign(this.twin, { mode: this.mode, domain: this.domain });
      if (this.showsTwin) this.twin.draw();
    }
    this.drawCrumbs();
    this.legend.replaceChildren(...this.legendItems());
  }

  // Class of each kind of cell -> its rectangles. Neighbours of one kind are one rectangle where there is no gap.
  paths() {
    const found = new Map(), layout = this.layout, side = layout.cell - layout.gap;
    const add = (key, x, y, wide) => {
      if (!found.has(key)) found.set(key, []);
      found.get(key).push(`M${x} ${y}h${wide}v${side}h${-wide}z`);
    };
    for (const block of layout.blocks) {
      block.nodes.forEach((node, index) => {
        const { cells, waits, fresh } = node[this.phase];
        for (let at = 0; at < node.size; ) {
          const key = this.cellClass(node, at);
          let end = at + 1;
          const isSame = () => cells[end] === cells[at] && waits[end] === waits[at] && fresh[end] === fresh[at];
          if (!layout.gap) while (end < node.size && end % ROW_CELLS && isSame()) end += 1;
          const x = cellX(block, layout, index, at), y = cellY(block, layout, index, at);
          const wide = (end - at) * layout.cell - layout.gap;
          add(key, x, y, wide);
          const texture = layout.cell >= 7 ? this.texture(node, at) : "";
          if (texture) add(`over ${texture}`, x, y, wide);
          at = end;
        }
      });
    }
    return found;
  }

  cellClass(node, at) {
    const owner = node[this.phase].cells[at];
    if (owner === CLOSED) return "closed";
    if (this.mode === "free") return `free${freeClass(node, this.phase)}`;
    if (owner === OTHERS) return "others";
    if (owner === FREE) return node[this.phase].waits[at] >= 0 ? "reserved" : "free";
    const job = this.world.jobs[owner];
    if (this.mode === "queue") return `c${this.world.queueColour.get(job.queue)}`;
    if (this.mode === "state") return !node[this.phase].fresh[at] ? "runs" : this.phase === "past" ? "leaves" : "starts";
    return `c${job.colour}`;
  }

  texture(node, at) {
    const owner = node[this.phase].cells[at];
    if (owner === CLOSED) return "cross";
    if (this.mode === "free") return "";
    if (owner === FREE) return node[this.phase].waits[at] >= 0 ? "stripes" : "";
    if (owner < 0) return "dots";
    return this.mode === "state" && node[this.phase].fresh[at] ? "stripes" : "";
  }

  texts() {
    const layout = this.layout, made = [];
    for (const title of layout.titles) {
      const { name, tierName } = title.domain, free = nodesOf(this.world, title.domain).reduce((sum, node) => sum + (node.device === "cpu" ? 0 : freeOn(node, node.device, this.phase)), 0);
      const short = `${decimal(free)} free`, about = title.w < 365 ? short : domainText(this.world, title.domain, this.phase);
      const texts = [`${name} (${tierName}): ${about}`, `${name}: ${short}`];
      made.push(s("text", { class: "title", x: title.x, y: title.y }, fitted(texts.find((text) => widthOf(text, "title") <= title.w) || name, title.w, "title")));
    }
    if (!layout.labels) return made;
    for (const block of layout.blocks) {
      made.push(s("text", { class: "label", x: block.x, y: block.y - 3 }, fitted(block.label, layout.blocks.length === 1 ? 240 : Math.max(26, block.w), "label")));
      if (layout.cell >= 8) made.push(...(this.mode === "free" ? this.freeTexts(block) : this.letterTexts(block)));
    }
    return made;
  }

  // How many devices are free on each node that has free ones and used ones.
  freeTexts(block) {
    return block.nodes.map((node, index) => {
      const free = freeOn(node, node.device, this.phase);
      if (node.closed || !free) return null;
      const x = cellX(block, this.layout, index, 0) + (Math.min(ROW_CELLS, node.size) * this.layout.cell) / 2;
      return this.letterAt(node.device === "cpu" ? decimal(Math.round(free)) : decimal(free), x, cellY(block, this.layout, index, 0) + (block.lines * this.layout.cell) / 2);
    });
  }

  // The letter of each job, or queue, in the middle of each of its runs of nodes.
  letterTexts(block) {
    const made = [], layout = this.layout;
    let index = 0;
    while (index < block.nodes.length) {
      let end = index + 1;
      const phase = this.phase, same = (a, b) => a.size === b.size && a[phase].cells.every((owner, at) => owner === b[phase].cells[at]);
      while (end < block.nodes.length && end % block.rows && same(block.nodes[index], block.nodes[end])) end += 1;
      const node = block.nodes[index];
      for (let at = 0; at < Math.min(ROW_CELLS, node.size); ) {
        const owner = node[this.phase].cells[at];
        let stop = at + 1;
        while (stop < Math.min(ROW_CELLS, node.size) && node[phase].cells[stop] === owner) stop += 1;
        const text = this.ownerLetter(owner);
        if (text && (stop - at) * layout.cell >= 7 * text.length) {
          const lines = node.size > ROW_CELLS ? 1 : end - index;
          made.push(this.letterAt(text, (cellX(block, layout, index, at) + cellX(block, layout, index, stop - 1) + layout.cell) / 2, cellY(block, layout, index, at) + (lines * layout.cell) / 2));
        }
        at = stop;
      }
      index = end;
    }
    return made;
  }

  ownerLetter(owner) {
    if (owner < 0) return "";
    const job = this.world.jobs[owner];
    return this.mode === "queue" ? this.world.queueLetter.get(job.queue) : job.letter;
  }

  letterAt(text, x, y) {
    return s("text", { class: "letter", x, y: y + 3.5 }, text);
  }

  legendItems() {
    const item = (classes, text, letter) => h("span", { class: "key" }, h("span", { class: `swatch ${classes}` }, letter || ""), text);
    const items = [], nodes = nodesOf(this.world, this.domain);
    const drawn = new Set([...this.drawnClasses, ...(this.showsTwin ? this.twin.drawnClasses : [])]);
    if (this.mode === "job") {
      const shown = new Set();
      for (const phase of this.showsTwin ? ["now", "past"] : ["now"]) {
        for (const node of nodes) for (const place of node[phase].pods) shown.add(place.job);
      }
      const jobs = [...shown];
      items.push(...jobs.slice(0, 24).map((job) => h("button", { type: "button", class: "key", onclick: () => this.choose(job) }, h("span", { class: `swatch c${job.colour}` }, job.letter), h("bdi", {}, job.title))));
      if (jobs.length > 24) items.push(h("span", { class: "key" }, `and ${count(jobs.length - 24, "more job")}; search finds each`));
    }
    if (this.mode === "queue") for (const [queue, at] of this.world.queueColour) items.push(item(`c${at}`, queue || "no queue", this.world.queueLetter.get(queue)));
    const fixed = [["starts", "starts now"], ["leaves", "leaves now"], ["runs", "runs"], ["reserved", "free, reserved for a waiting job"], ["others", "pods of no job of the plan"], ["closed", "closed: cordoned or not ready"], ["free", "free"],
      ["free0", "full"], ["free1", "up to half free"], ["free2", "more than half free"], ["free3", "all free"]];
    for (const [key, text] of fixed) if (drawn.has(key)) items.push(item(key, text));
    if (nodes.some((node) => node.device === "cpu")) items.push(h("span", { class: "key" }, "on a node without devices, a cell is an eighth of its CPUs"));
    return items;
  }

  drawCrumbs() {
    const path = this.domain ? pathOf(this.world, this.domain) : [];
    const all = h("button", { type: "button", disabled: !this.domain, onclick: () => this.zoom(null) }, "Whole cluster");
    const inner = path.map((domain, at) => [" > ", h("button", { type: "button", disabled: at === path.length - 1, onclick: () => this.zoom(domain) }, h("bdi", {}, domain.name))]);
    this.crumbs.replaceChildren();
    fill(this.crumbs, {}, [all, inner, h("span", { class: "sums" }, ` ${domainText(this.world, this.domain)}`)]);
  }

  // ---- what is marked

  mark() {
    const layout = this.layout, made = [];
    this.svg.classList.toggle("dimmed", this.job !== null);
    if (this.job) {
      const parts = [];
      for (const block of layout.blocks) block.nodes.forEach((node, index) => {
        for (let at = 0; at < node.size; at += 1) {
          if (node[this.phase].cells[at] !== this.job.at && node[this.phase].waits[at] !== this.job.at) continue;
          parts.push(`M${cellX(block, layout, index, at)} ${cellY(block, layout, index, at)}h${layout.cell - layout.gap}v${layout.cell - layout.gap}h${layout.gap - layout.cell}z`);
        }
      });
      made.push(s("path", { class: `chosen c${this.job.colour}`, d: parts.join("") }));
    }
    const box = this.node && nodeBox(layout, this.node);
    if (box) made.push(s("rect", { class: "here", x: box.x - 2, y: box.y - 2, width: box.w + 4, height: box.h + 4, rx: 2 }));
    this.marks.replaceChildren(...made);
  }

  goTo(node, quietly) {
    if (!node) return;
    this.node = node;
    this.mark();
    const box = nodeBox(this.layout, node);
    if (!box) return;
    const lines = nodeLines(this.world, node, this.phase);
    this.tip.replaceChildren(h("strong", {}, node.name), h("div", { class: "place" }, placeText(this.world, node)), ...lines.map((line) => h("div", {}, line)));
    this.tip.hidden = false;
    const left = Math.max(0, Math.min(box.x, this.frame.clientWidth - this.tip.offsetWidth));
    const below = box.y + box.h + 8;
    this.tip.style.left = `${left}px`;
    this.tip.style.top = `${below}px`;
    if (!quietly) this.live.textContent = printable([node.name, placeText(this.world, node), ...lines].join(". "));
  }

  unpoint() {
    this.tip.hidden = true;
    this.svg.classList.remove("link");
    if (document.activeElement !== this.svg) { this.node = null; this.mark(); }
  }

  place(event) {
    const box = this.svg.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  point(event) {
    const [x, y] = this.place(event), found = hit(this.layout, x, y);
    this.svg.classList.toggle("link", Boolean(found && found.node[this.phase].cells[found.at] >= 0) || hitTitle(this.layout, x, y) !== null);
    if (found && found.node !== this.node) this.goTo(found.node, true);
    if (!found) this.unpoint();
  }

  click(event) {
    const [x, y] = this.place(event), found = hit(this.layout, x, y);
    if (!found) {
      const domain = hitTitle(this.layout, x, y);
      if (domain) this.zoom(domain);
      else this.choose(null);
      return;
    }
    const side = found.node[this.phase], owner = side.cells[found.at], waits = side.waits[found.at];
    this.choose(owner >= 0 ? this.world.jobs[owner] : waits >= 0 ? this.world.jobs[waits] : null);
  }

  key(event) {
    const nodes = nodesOf(this.world, this.domain), node = this.node || nodes[0];
    if (!node) return;
    const at = node.position - nodes[0].position;
    const step = { ArrowDown: 1, ArrowUp: -1, ArrowRight: node.domain.own.length, ArrowLeft: -node.domain.own.length }[event.key];
    if (step) this.goTo(nodes[Math.max(0, Math.min(nodes.length - 1, at + step))]);
    else if (event.key === "Home") this.goTo(nodes[0]);
    else if (event.key === "End") this.goTo(nodes[nodes.length - 1]);
    else if (event.key === "PageDown") this.goTo(nodes[Math.min(nodes.length - 1, node.domain.to - nodes[0].position)]);
    else if (event.key === "PageUp") this.goTo(nodes[Math.max(0, node.domain.from - 1 - nodes[0].position)]);
    else if (event.key === "Enter") this.choose(this.nextJob(node));
    else if (event.key === "z" || event.key === "Z" || event.key === "+") this.zoom(this.innerDomain(node));
    else if (event.key === "Escape" || event.key === "-") this.outward();
    else return;
    event.preventDefault();
  }

  // The job of the node after the one shown, so that one key goes through all of them.
  nextJob(node) {
    const jobs = [...new Set(node[this.phase].pods.map((place) => place.job))];
    return jobs[(jobs.indexOf(this.job) + 1) % Math.max(1, jobs.length)] || null;
  }

  // The domain around the node that is one level below the one shown.
  innerDomain(node) {
    const path = pathOf(this.world, node.domain);
    return path[Math.min(path.length - 1, this.domain ? path.indexOf(this.domain) + 1 : 0)];
  }

  outward() {
    if (this.job) this.choose(null);
    else if (this.domain) this.zoom(this.domain.parent === null ? null : this.world.domains[this.domain.parent]);
  }

  // ---- choices

  zoom(domain) {
    if (this.leader) { this.leader.zoom(domain); return; }
    this.domain = domain;
    for (const each of [this, this.twin]) if (each && each.node && domain && !nodesOf(this.world, domain).includes(each.node)) each.node = null;
    this.draw();
    this.live.textContent = printable(`${domain ? domain.name : "Whole cluster"}: ${domainText(this.world, domain)}`);
    if (document.activeElement === this.svg && this.node) this.goTo(this.node, true);
    this.onzoom();
  }

  // Draw in other colours.
  recolour(mode) {
    this.mode = mode;
    this.draw();
  }

  choose(job) {
    if (this.leader) { this.leader.choose(job); return; }
    for (const each of [this, this.twin]) if (each) {
      each.job = job;
      if (each.layout) each.mark();
    }
    this.card.replaceChildren();
    if (!job) return;
    const close = h("button", { type: "button", class: "close", "aria-label": "Close the details", onclick: () => { this.choose(null); this.svg.focus(); } }, "×");
    fill(this.card, {}, [close, jobCard(this.world, job)]);
  }

  // Show a job, a node or a domain that was searched.
  show(found) {
    const at = found.job || found.node || found.domain;
    if (found.job) {
      if (this.domain && !jobNodes(this.world, at).some((node) => node.position >= this.domain.from && node.position < this.domain.to)) this.zoom(null);
      this.choose(at);
    } else if (found.domain) this.zoom(at);
    else {
      this.choose(null);
      this.zoom(at.domain);
      this.goTo(at);
    }
    this.frame.scrollIntoView({ block: "nearest" });
  }
}

// 0 full, 1 up to half free, 2 more than half free, 3 all free.
function freeClass(node, phase) {
  const share = node.capacity[node.device] ? freeOn(node, node.device, phase) / node.capacity[node.device] : 0;
  return share === 0 ? 0 : share <= 0.5 ? 1 : share < 1 ? 2 : 3;
}

// A picture of all fits a screen; on a telephone it may be longer, so that cells are large enough for letters.
const heightFor = (width) => (width < 700 ? 1300 : Math.max(560, Math.min(960, 0.8 * width)));

// The text as far as it is not wider than so many pixels, in the fonts of page.css.
const ruler = document.createElement("canvas").getContext("2d");
const FONTS = { title: "600 12.5px", label: "10px", row: "11px" };
function widthOf(text, kind) {
  ruler.font = `${FONTS[kind]} system-ui, -apple-system, "Segoe UI", Roboto, Arial, sans-serif`;
  return ruler.measureText(printable(text)).width;
}
function fitted(text, width, kind) {
  const shown = printable(text), wide = widthOf(shown, kind);
  if (wide <= width) return shown;
  let most = Math.floor((shown.length * width) / wide); // letters differ in width
  while (most > 1 && widthOf(`${shown.slice(0, most)}…`, kind) > width) most -= 1;
  return `${shown.slice(0, Math.max(1, most))}…`;
}

function textures() {
  const pattern = (id, size, d) => s("pattern", { id, width: size, height: size, patternUnits: "userSpaceOnUse" }, s("path", { class: "ink", d }));
  return s("defs", {}, pattern("stripes", 5, "M-1 1l2-2M0 5l5-5M4 6l2-2"), pattern("dots", 4, "M1 1.5h1"), pattern("cross", 6, "M0 0l6 6M6 0l-6 6"));
}
