// A tenant: who answers for it, what was learnt, and how to go back. Each change is confirmed.

import { number, seconds } from "./charts.js";
import { $, attempt, confirmed, make, say, show } from "./dom.js";
import { post, tenantPath } from "./service.js";

const MODES = {
  shadow: "Users see the source's answers. The tenant learns in the background, so that you can compare.",
  live: "Users see the adapted answers, and the tenant keeps learning.",
  frozen: "Users see the source's answers, and nothing is learned. What was learned before is kept.",
};
const BY_SOURCE = " At the moment the source answers: the latest queries look like the reference queries, or the source is confident about them.";
const NOTHING_LEARNT = " The tenant has not learned from a group of queries yet.";
const FACTS = { queries: "queries", batches: "groups", updates: "updates", drops: "drops", pending: "waiting" };

let place = { collection: "", tenant: "", mode: "", changed: () => {} };

const fact = (text, value) => make("div", {}, make("dt", {}, text), make("dd", {}, value));
const facts = (tenant) =>
  [...Object.entries(FACTS).map(([name, text]) => fact(text, number(tenant[name] ?? 0))), fact("delay", seconds(tenant.delay))];

const when = (time) => new Date(time).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" });

const snapshotRow = (snapshot) =>
  make("li", {},
    make("span", {}, make("strong", {}, snapshot.name), ` after ${number(snapshot.batches)} groups, ${when(snapshot.time)}`),
    make("button", { type: "button", "data-snapshot": snapshot.name }, "Roll back…"));

const eventRow = (event) =>
  make("li", { class: "quiet" }, `Group ${event.batch}, ${when(event.time)}: ${event.event}${event.detail ? `, ${event.detail}` : ""}`);

function clickSentence(clicks) {
  if (!clicks) return "";
  const few = clicks.clicks < clicks.needed ? ` (it takes ${clicks.needed})` : "";
  const verdict = clicks.better ? `the ${clicks.better} answers are better` : `too few to tell which answers are better${few}`;
  return `Clicks so far: ${number(clicks.clicks)}, mean reciprocal rank ${number(clicks.source)} for the source and ${number(clicks.adapted)} for the adapted model; ${verdict}.`;
}

export function drawTenant(tenant, where) {
  place = { ...where, mode: tenant.mode };
  for (const button of $("modes").children) button.setAttribute("aria-pressed", String(button.dataset.mode === tenant.mode));
  const begins = tenant.isNew ? `No queries of “${where.tenant}” yet; it begins in this mode, or in the one you choose. ` : "";
  const bySource = tenant.report?.answers_by === "source" ? BY_SOURCE : "";
  const note = tenant.mode !== "live" ? "" : tenant.updates ? bySource : NOTHING_LEARNT;
  $("mode-meaning").textContent = `${begins}${MODES[tenant.mode] ?? ""}${note}`;
  $("undo").disabled = $("reset").disabled = Boolean(tenant.isNew);
  $("nothing-learnt").hidden = !tenant.isNew;
  $("clicks").textContent = clickSentence(tenant.clicks);
  show($("facts"), ...facts(tenant));
  show($("snapshots"), ...(tenant.snapshots ?? []).map(snapshotRow));
  const events = tenant.guard?.events ?? [];
  show($("guard-events"), ...(events.length ? [make("h3", {}, "Guard events"), make("ul", {}, ...events.slice(-8).reverse().map(eventRow))] : []));
}

async function change(verb, body, done) {
  const { collection, tenant, changed } = place;
  const answer = await attempt(() => post(`${tenantPath(collection, tenant)}/${verb}`, body));
  if (answer === null) return false;
  say(done);
  changed();
  return true;
}

async function switchMode(mode) {
  if (mode === place.mode) return;
  const yes = await confirmed(`Go ${mode === "frozen" ? "to frozen" : mode === "live" ? "live" : "to shadow"}?`, MODES[mode], `Switch to ${mode}`);
  if (yes) await change("mode", { mode }, `“${place.tenant}” is ${mode} now.`);
}

async function reset() {
  const text = `“${place.tenant}” forgets everything it has learned. Only a snapshot can bring it back.`;
  if (await confirmed("Reset to the source?", text, "Reset")) await change("reset", {}, `“${place.tenant}” uses the source model again.`);
}

async function undo() {
  const text = `The last update of “${place.tenant}” is undone.`;
  if (await confirmed("Undo the last update?", text, "Undo")) await change("undo", {}, "The last update is undone.");
}

async function snapshot(event) {
  event.preventDefault();
  const name = $("snapshot-name").value.trim();
  if (await change("snapshots", { name }, `Snapshot “${name}” is on disk.`)) $("snapshot-name").value = "";
}

async function rollback(name) {
  const text = `“${place.tenant}” goes back to the snapshot “${name}”. What it has learned since then is lost.`;
  if (await confirmed("Roll back?", text, "Roll back")) await change("rollback", { name }, `Rolled back to “${name}”.`);
}

export function listenForChanges() {
  $("modes").addEventListener("click", (event) => event.target.dataset.mode && switchMode(event.target.dataset.mode));
  $("reset").addEventListener("click", reset);
  $("undo").addEventListener("click", undo);
  $("snapshot-form").addEventListener("submit", snapshot);
  $("snapshots").addEventListener("click", (event) => event.target.dataset.snapshot && rollback(event.target.dataset.snapshot));
}
