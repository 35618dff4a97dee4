// "Send many": a stream of samples that teaches the tenant, and how often each model is right.

import { legend, lineChart } from "./charts.js";
import { $, attempt, make, show } from "./dom.js";
import { collectionPath, get, pause, tenantPath } from "./service.js";
import { ask, corrupted, search, tenantName } from "./try.js";

const AT_ONCE = 16;
const PATIENCE = 30; // looks of a tenth of a second for what was sent to be learnt

let stopped = false;

const isFirst = (hits, right) => right.includes(hits[0]?.id);

function score(answers, samples) {
  const right = (side) => answers.filter((answer, index) => isFirst(answer[side] ?? answer.hits, samples[index].right)).length;
  return { source: right("source"), adapted: right("adapted"), queries: answers.length };
}

const percent = (part) => `${Math.round(100 * part)} %`;
const total = (rows, name) => rows.reduce((sum, row) => sum + row[name], 0);
const share = (rows, side) => total(rows, side) / total(rows, "queries");

function draw(rows) {
  const points = (side) => rows.map((row, index) => [index + 1, 100 * share([row], side)]);
  const lines = ["source", "adapted"].map((name) => ({ name, points: points(name) }));
  const last = rows.slice(-4);
  const text = `Correct top-1 results in the last ${total(last, "queries")} queries: source ${percent(share(last, "source"))}, adapted ${percent(share(last, "adapted"))}.`;
  show($("many-chart"), make("figure", {},
    make("h3", {}, "Correct top-1 results along the stream, in percent"),
    lineChart({ label: text, lines, from: 0, to: 100 }),
    legend({ source: "source", adapted: "adapted" }),
    make("figcaption", {}, text)));
}

// A service leaves updates out when more comes than it can learn: wait for the last ones.
async function learnt(collection) {
  for (let looks = 0; looks < PATIENCE && !stopped; looks += 1) {
    const { pending } = await get(tenantPath(collection, tenantName()));
    if (pending < AT_ONCE) return;
    await pause(0.1);
  }
}

async function stream(collection, count) {
  const { samples } = await get(`${collectionPath(collection)}/samples?n=${count}`);
  const rows = [];
  for (let start = 0; start < samples.length && !stopped; start += AT_ONCE) {
    const part = samples.slice(start, start + AT_ONCE);
    const { answers } = await search(await corrupted(part.map((sample) => sample.query)), true);
    rows.push(score(answers, part));
    draw(rows);
    await learnt(collection);
    $("many-progress").textContent = `${start + part.length} of ${samples.length} sent`;
  }
  await ask();
}

async function send(event, collection) {
  event.preventDefault();
  stopped = false;
  $("many-send").disabled = true;
  $("many-stop").hidden = false;
  $("many-progress").textContent = "sending…";
  await attempt(() => stream(collection(), Number($("many-count").value)));
  $("many-send").disabled = false;
  $("many-stop").hidden = true;
}

export function listenForMany(collection) {
  $("many").addEventListener("submit", (event) => send(event, collection));
  $("many-stop").addEventListener("click", () => { stopped = true; });
}
