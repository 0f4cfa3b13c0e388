// How good the plan is known to be: one sentence for each batch.

function batchSentence(batch) {
  const open = batch.objectives.filter((one) => one.verdict !== "proven");
  if (!open.length) return "proven optimal: no plan decides these jobs better.";
  const proven = batch.objectives.length - open.length;
  const rest = open.map((one) => `${one.name} is ${decimal(one.value)} and may at best be ${decimal(one.bound)}`).join("; ");
  return `${proven} of ${count(batch.objectives.length, "goal")} proven optimal; ${rest}.`;
}

function proofSection(world) {
  const heads = [{ title: "Goal, the most important first" }, { title: "Reached", number: true }, { title: "Best possible", number: true }, { title: "Gap", number: true }, { title: "Verdict" }];
  const rows = (batch) => batch.objectives.map((one) => [one.name, decimal(one.value), decimal(one.bound), `${decimal(100 * one.gap)} %`, one.verdict]);
  return [
    h("h2", { id: "proof-title" }, "Proof"),
    h("p", {}, "The plan obeys every limit; a second program has checked it. How good it is, batch by batch:"),
    world.plan.clockStruck ? h("p", { class: "note" }, "The time limit ended the search, so the same input may give another plan.") : null,
    world.plan.batches.length ? null : h("p", {}, "There was nothing to decide."),
    world.plan.batches.map((batch, at) => folded([h("strong", {}, `Batch ${at + 1}`), `, ${count(batch.gangs.length, "job")}: ${batchSentence(batch)}`], () => [
      h("p", {}, `Jobs: ${compactNames(batch.gangs, 40)}`), table(heads, rows(batch), { label: `Goals of batch ${at + 1}` })])),
  ];
}
