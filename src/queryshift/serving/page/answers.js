// Queries and answers as a person sees them.

import { make } from "./dom.js";
import { collectionPath, get } from "./service.js";

const shown = new Map(); // collection and id -> a promise of how the candidate is shown

export function shownQuery(query) {
  const parts = [];
  if (query.image) parts.push(make("img", { src: `data:image/png;base64,${query.image}`, alt: "the query's image" }));
  if (query.audio) parts.push(make("audio", { controls: "", src: `data:audio/wav;base64,${query.audio}` }));
  if (query.text) parts.push(make("q", {}, query.text));
  if (query.vector) parts.push(make("q", {}, `a vector of ${query.vector.length} numbers`));
  return parts;
}

function candidate(collection, id) {
  const key = `${collection}\n${id}`;
  if (!shown.has(key)) {
    const path = `${collectionPath(collection)}/candidates/${encodeURIComponent(id)}`;
    shown.set(key, get(path).catch(() => ({ id })));
  }
  return shown.get(key);
}

const named = (seen) =>
  seen.image ? make("img", { src: `data:image/png;base64,${seen.image}`, alt: `candidate ${seen.id}` }) : seen.text ?? String(seen.id);

// How the model divides its confidence among some hits. Scores that both models gave together are
// probabilities; others are similarities, which may be negative.
function confidence(hits, temperature, by) {
  const odds = hits.map((hit) => (by === "both" ? hit.score : Math.exp((hit.score - hits[0].score) / temperature)));
  const total = odds.reduce((sum, one) => sum + one, 0);
  return odds.map((one) => `${Math.round((100 * one) / total)} %`);
}

async function hitRow(collection, hit, place, right, share) {
  const seen = await candidate(collection.name, hit.id);
  const isRight = right.includes(hit.id);
  return make("li", { class: isRight ? "hit right" : "hit" },
    isRight ? make("b", { title: "the correct answer", "aria-label": "correct" }, "✓") : String(place),
    make("span", { title: String(hit.id) }, named(seen)),
    make("span", { class: "score", title: `score ${hit.score.toFixed(3)}` }, share));
}

async function side(collection, title, name, hits, by, right) {
  const shares = confidence(hits, collection.temperature, by);
  const rows = await Promise.all(hits.map((hit, index) => hitRow(collection, hit, index + 1, right, shares[index])));
  const missed = right.length > 0 && !hits.some((hit) => right.includes(hit.id));
  const note = missed ? make("p", { class: "missed" }, `✗ not in the top ${hits.length}`) : null;
  return make("div", { class: name }, make("h3", {}, title), make("ol", {}, ...rows), note);
}

// The query as it is asked, and what it should find.
export async function asked(collection, query, right) {
  const wanted = await Promise.all(right.slice(0, 3).map((id) => candidate(collection, id)));
  const note = wanted.length ? make("p", {}, make("span", { class: "quiet" }, "should find "), ...wanted.map(named)) : null;
  return make("div", { class: "asked-query" }, make("div", {}, ...shownQuery(query)), note);
}

// Source and adapted answers beside each other, the latter with who gave it; ids in `right` are marked.
export async function sides(collection, { source, adapted, by }, right = []) {
  const both = await Promise.all([
    side(collection, "Source", "source", source, "source", right),
    side(collection, "Adapted", "adapted", adapted, by, right),
  ]);
  return make("div", { class: "sides" }, ...both);
}
