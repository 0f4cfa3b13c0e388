// The reconciler's status above the plan, and the next plan as soon as there is one; only where a reconciler serves the page.

const LOOK_EVERY = 3000;
const LONGEST_LIST = 20;

// A fold that is open or not as it was when the section is made again.
const openFolds = new Set(["held"]);
function keptFold(id, summary, make) {
  const box = folded(summary, make, openFolds.has(id));
  box.addEventListener("toggle", () => openFolds[box.open ? "add" : "delete"](id));
  return box;
}

function liveSection(status, problem) {
  if (!status) return [h("p", { class: "note" }, problem || "No reconciler has reported yet.")];
  const conditions = (title, shown) => table([{ title: "Condition" }, { title: "Status" }, { title: "Reason" }, { title: "Meaning" }, { title: "Since" }],
    shown.map((each) => [h("strong", {}, each.type), each.status, each.reason, [each.message && h("div", {}, each.message), each.sentence], clockText(each.lastTransitionTime)]), { label: title });
  const told = status.conditions.filter((each) => each.message), quiet = status.conditions.filter((each) => !each.message);
  const held = status.held.slice(0, LONGEST_LIST).map((each) => [h("bdi", {}, each.object), each.reason]);
  const changes = Object.entries(reported.history).sort(([, a], [, b]) => (a[a.length - 1].since < b[b.length - 1].since ? 1 : -1)).slice(0, LONGEST_LIST);
  const runs = Object.entries(status.finished).slice(0, LONGEST_LIST).map(([name, phase]) => [h("bdi", {}, name), phase]);
  return [
    h("h2", { id: "live-title" }, "What the reconciler reports"),
    h("p", { class: "about" }, status.commit ? `Commit ${status.commit.slice(0, 12)} is in force. ` : "No commit is in force yet. ",
      status.head && status.head !== status.commit ? `The branch is at ${status.head.slice(0, 12)}. ` : "", problem || ""),
    told.length ? conditions("Conditions to look at", told) : null,
    keptFold("conditions", `${count(quiet.length, "condition")} with nothing to report`, () => conditions("Other conditions", quiet)),
    status.heldTotal ? keptFold("held", `${count(status.heldTotal, "object")} held back`, () => table([{ title: "Object" }, { title: "Why" }], held, { label: "Held back" })) : null,
    changes.length ? keptFold("history", "Since when jobs wait, and why", () => table([{ title: "Job" }, { title: "Changes, the last one below" }],
      changes.map(([name, rows]) => [h("bdi", {}, name), historyLines(rows)]), { label: "Reasons over time" })) : null,
    status.finishedTotal ? keptFold("runs", `${count(status.finishedTotal, "run")} ended`, () => table([{ title: "Job" }, { title: "Phase" }], runs, { label: "Ended runs" })) : null,
  ];
}

class LiveStatus {
  constructor(digest) {
    this.digest = digest;
    this.status = null;
    this.said = "";
  }

  async look() {
    let problem = "";
    try {
      const answer = await fetch("report/status.json", { cache: "no-store" });
      if (!answer.ok) throw new Error(`answer ${answer.status}`);
      this.status = await answer.json();
    } catch (error) {
      problem = `The reconciler does not answer (${error.message}); this is what it said last.`;
    }
    const said = JSON.stringify([this.status, problem]);
    if (said !== this.said) {
      this.said = said;
      reported.history = (this.status && this.status.history) || {};
      const section = byId("live");
      section.replaceChildren();
      fill(section, {}, [liveSection(this.status, problem)]);
    }
    if (!problem && this.status && this.status.digest && this.status.digest !== this.digest) await this.takeNextPage();
    setTimeout(() => this.look(), LOOK_EVERY);
  }

  // The data of the next plan, in place of this one's: the page is built again, and stays where it was scrolled to.
  async takeNextPage() {
    try {
      const answer = await fetch("report", { cache: "no-store" });
      if (!answer.ok) return;
      const next = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("plan");
      if (!next || JSON.parse(next.textContent).digest === this.digest) return;
      byId("plan").textContent = next.textContent;
      this.digest = JSON.parse(next.textContent).digest;
      SECTIONS.forEach((id) => byId(id).replaceChildren());
      build();
    } catch (error) {
      this.said = "";  // the next look tries again
    }
  }
}

new LiveStatus(JSON.parse(byId("plan").textContent).digest).look();
