// The box to try a query: one's own or a sample, corrupted by a slider, answered by both models.

import { asked, shownQuery, sides } from "./answers.js";
import { $, attempt, make, say, show } from "./dom.js";
import { collectionPath, get, post } from "./service.js";

const THUMBS = 8, HITS = 5;

let collection = null, samples = [];
let tried = { query: null, right: [] };
let turn = 0; // of the last question: a late answer to an earlier one is not shown

export const severity = () => Number($("severity").value);
export const tenantName = () => $("tenant").value.trim() || "default";

// The queries as they are asked: corrupted as the slider says.
export async function corrupted(queries) {
  if (severity() === 0 || !collection.corruptions.length) return queries;
  const body = { queries, corruption: $("corruption").value, severity: severity() };
  return (await post(`${collectionPath(collection.name)}/corrupt`, body)).queries;
}

export const search = (queries, adapt) =>
  post(`${collectionPath(collection.name)}/search`, { tenant: tenantName(), queries, k: HITS, adapt, trial: !adapt, compare: true });

async function answered(mine) {
  const [query] = await corrupted([tried.query]);
  const preview = await asked(collection.name, query, tried.right);
  if (mine !== turn) return;
  show($("preview"), preview);
  const [answer] = (await search([query], false)).answers;
  if (answer.error) throw new Error(answer.error.detail ?? answer.error);
  const both = await sides(collection, { source: answer.hits, adapted: answer.hits, ...answer }, tried.right);
  if (mine === turn) show($("answers"), both);
}

export async function ask() {
  if (tried.query === null) return;
  turn += 1;
  await attempt(() => answered(turn));
}

function choose(query, right) {
  tried = { query, right };
  return ask();
}

function thumb(sample, index) {
  const label = `sample ${index + 1}`;
  return make("label", { class: "thumb" },
    make("input", { type: "radio", name: "sample", value: index, "aria-label": label, checked: index === 0 ? "" : null }),
    sample.query.audio ? `Sample ${index + 1}` : null, // a click on the player plays, beside it chooses
    ...shownQuery(sample.query));
}

const base64 = (file) => new Promise((resolve, reject) => {
  const reader = new FileReader();
  reader.addEventListener("load", () => resolve(reader.result.split(",")[1]));
  reader.addEventListener("error", () => reject(new Error("This file cannot be read.")));
  reader.readAsDataURL(file);
});

const FIELDS = { text: "own-text", image: "own-file", audio: "own-file", vector: "own-vector" };
const WORDS = { text: "a text", image: "an image", audio: "an audio file", vector: "a vector" };
const parts = () => [collection.queries].flat().flatMap((name) => name.split("+"));

async function ownPart(name) {
  const field = $(FIELDS[name]);
  if (name === "text") return field.value;
  if (name === "vector") return field.value.trim().split(/[\s,;[\]]+/).filter(Boolean).map(Number);
  return field.files.length ? base64(field.files[0]) : "";
}

async function askOwn(event) {
  event?.preventDefault();
  const query = {};
  for (const name of parts()) query[name] = await ownPart(name);
  if (Object.values(query).some((value) => value.length === 0)) return say("Give a query first.", true);
  for (const sample of document.querySelectorAll("#samples input")) sample.checked = false;
  return choose(query, []);
}

function offerFields() {
  const wanted = parts();
  for (const name of ["text", "file", "vector"]) {
    $(`own-${name}-label`).hidden = !wanted.some((part) => FIELDS[part] === `own-${name}`);
  }
  const file = wanted.find((part) => FIELDS[part] === "own-file");
  $("takes").textContent = `A query of this collection is ${wanted.map((part) => WORDS[part] ?? part).join(" with ")}.`;
  $("own-file-kind").textContent = { image: "image", audio: "audio file" }[file] ?? "file";
  $("own-file").accept = file ? `${file}/*` : "";
  $("own-ask").hidden = wanted.length === 1 && file !== undefined; // choosing the file asks
  show($("corruption"), ...collection.corruptions.map((name) => make("option", { value: name }, name.replaceAll("_", " "))));
  $("corruption-fields").hidden = collection.corruptions.length === 0;
}

export async function openTry(next) {
  collection = next;
  offerFields();
  ({ samples } = await get(`${collectionPath(collection.name)}/samples?n=${THUMBS}`));
  $("samples").hidden = $("many").hidden = samples.length === 0;
  $("many-hint").hidden = samples.length === 0 || collection.corruptions.length === 0;
  const thumbs = $("samples").querySelector(".thumbs");
  thumbs.classList.toggle("long", samples.some((sample) => !sample.query.image));
  show(thumbs, ...samples.map(thumb));
  tried = { query: null, right: [] };
  show($("preview"));
  show($("answers"));
  if (samples.length) await choose(samples[0].query, samples[0].right);
}

function slide() {
  $("severity-shown").textContent = $("severity").value;
}

export function listenForQueries() {
  $("samples").addEventListener("change", (event) => {
    const sample = samples[Number(event.target.value)];
    attempt(() => choose(sample.query, sample.right));
  });
  $("own").addEventListener("submit", (event) => attempt(() => askOwn(event)));
  $("own-file").addEventListener("change", () => parts().length === 1 && attempt(() => askOwn()));
  $("severity").addEventListener("input", slide);
  $("severity").addEventListener("change", ask);
  $("corruption").addEventListener("change", ask);
}
