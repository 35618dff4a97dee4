// All tenants of a collection at a glance; a click looks at one.

import { number, seconds } from "./charts.js";
import { $, make, show } from "./dom.js";
import { collectionPath, get } from "./service.js";

const SHOWN = 100;
const COLUMNS = { tenant: "tenant", mode: "mode", queries: "queries", updates: "updates", drops: "drops", delay: "learning delay", last_seen: "last asked" };

const when = (time) => new Date(time).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" });

const cells = (one) => [
  make("button", { type: "button", "data-tenant": one.tenant }, one.tenant),
  one.mode, number(one.queries), number(one.updates), number(one.drops), seconds(one.delay), when(one.last_seen),
];

const line = (one, current) =>
  make("tr", one.tenant === current ? { "aria-current": "true" } : {}, ...cells(one).map((cell) => make("td", {}, cell)));

// Names for the field, and a row for each tenant.
export async function drawOverview(collection, current) {
  const { tenants, next } = await get(`${collectionPath(collection)}/tenants?limit=${SHOWN}`).catch(() => ({ tenants: [] })); // a help, no more
  show($("tenants"), ...tenants.map((one) => make("option", { value: one.tenant })));
  $("overview").hidden = tenants.length === 0;
  $("overview-note").textContent = next ? `The first ${SHOWN} by name; write another name above to look at it.` : "";
  show($("overview-head"), make("tr", {}, ...Object.values(COLUMNS).map((text) => make("th", {}, text))));
  show($("overview-rows"), ...tenants.map((one) => line(one, current)));
}

export function listenForTenants(choose) {
  $("overview-rows").addEventListener("click", (event) => event.target.dataset.tenant && choose(event.target.dataset.tenant));
}
