// The latest queries with what source and adapted model answered, where the operator keeps them.

import { shownQuery, sides } from "./answers.js";
import { $, make, show } from "./dom.js";
import { get, tenantPath } from "./service.js";

const SHOWN = 4, HITS = 3;

async function row(collection, kept) {
  const differs = kept.source[0]?.id !== kept.adapted[0]?.id;
  const time = new Date(kept.time).toLocaleTimeString("en-GB");
  const asked = make("div", {}, ...shownQuery(kept.query), make("p", { class: "quiet" }, differs ? `${time}, answers differ` : time));
  return make("div", { class: "latest" }, asked, await sides(collection, { source: kept.source.slice(0, HITS), adapted: kept.adapted.slice(0, HITS), by: kept.by }));
}

export async function drawLatest(collection, tenant) {
  if (!collection.keeps_queries) {
    $("latest-note").textContent = "The operator keeps no queries (keep_queries in serve.toml).";
    return show($("latest"));
  }
  const { queries } = await get(`${tenantPath(collection.name, tenant)}/latest`);
  $("latest-note").textContent = queries.length ? "Newest first." : "None yet.";
  return show($("latest"), ...(await Promise.all(queries.slice(0, SHOWN).map((kept) => row(collection, kept)))));
}
