// The page of a running service: which collection and tenant is looked at, and the clock.

import { drawCurves } from "./curves.js";
import { $, attempt, make, say, show } from "./dom.js";
import { drawLatest } from "./latest.js";
import { listenForMany } from "./many.js";
import { drawOverview, listenForTenants } from "./overview.js";
import { collectionPath, get, tenantPath, useToken } from "./service.js";
import { drawTenant, listenForChanges } from "./tenant.js";
import { ask, listenForQueries, openTry, tenantName } from "./try.js";

const EVERY = 1500; // milliseconds between looks
const OVERVIEW_EVERY = 6000;
const KEPT = 400; // groups drawn

let collections = [], rows = [], looking = false, lost = false;

const current = () => collections.find((one) => one.name === $("collection").value);

function forget() {
  rows = [];
}

async function newRows(tenant) {
  if (rows.length && tenant.batches < rows.at(-1).batch) forget(); // rolled back, or reset
  const since = rows.at(-1)?.batch ?? Math.max(0, tenant.batches - KEPT);
  const more = await get(`${tenantPath(current().name, tenantName())}/history?since=${since}`);
  rows = [...rows, ...more.rows].slice(-KEPT);
}

async function tenantOrNobody() {
  try {
    return await get(tenantPath(current().name, tenantName()));
  } catch (problem) {
    if (problem.status !== 404) throw problem;
    return { mode: current().mode, snapshots: [], isNew: true };
  }
}

async function look() {
  const tenant = await tenantOrNobody();
  const where = { collection: current().name, tenant: tenantName(), changed: () => { forget(); refresh(); ask(); } };
  drawTenant(tenant, where);
  if (tenant.isNew) {
    forget();
  } else {
    await newRows(tenant);
    await drawLatest(current(), tenantName());
  }
  drawCurves(rows);
}

async function refresh() {
  if (looking || document.hidden || !current()) return;
  looking = true;
  try {
    await look();
    if (lost) say("");
    lost = false;
  } catch (problem) {
    lost = true;
    say(problem.message, true);
  } finally {
    looking = false;
  }
}

const overview = () => drawOverview(current().name, tenantName());

function choose(tenant) {
  $("tenant").value = tenant;
  attempt(open);
}

function remember() {
  const query = new URLSearchParams({ collection: current().name, tenant: tenantName() });
  window.history.replaceState(null, "", `?${query}`);
}

async function open() {
  forget();
  remember();
  $("main").hidden = false;
  await refresh();
  await openTry(current());
  await overview();
}

async function start() {
  ({ collections } = await get("collections"));
  $("token-form").hidden = true;
  $("choice").hidden = false;
  const asked = new URLSearchParams(window.location.search);
  show($("collection"), ...collections.map((one) => make("option", { value: one.name }, one.name)));
  if (collections.some((one) => one.name === asked.get("collection"))) $("collection").value = asked.get("collection");
  if (asked.get("tenant")) $("tenant").value = asked.get("tenant");
  say("");
  await open();
}

function askForToken() {
  $("token-form").hidden = false;
  $("token").focus();
}

function takeToken(event) {
  event.preventDefault();
  useToken($("token").value.trim());
  $("token").value = "";
  attempt(start);
}

document.addEventListener("token-wanted", askForToken);
document.addEventListener("visibilitychange", refresh);
$("token-form").addEventListener("submit", takeToken);
$("choice").addEventListener("submit", (event) => event.preventDefault());
$("choice").addEventListener("change", () => attempt(open));
$("tenant").addEventListener("focus", overview);
listenForChanges();
listenForTenants(choose);
listenForQueries();
listenForMany(() => current().name);
setInterval(refresh, EVERY);
setInterval(() => document.hidden || !current() || overview(), OVERVIEW_EVERY);
attempt(start);
