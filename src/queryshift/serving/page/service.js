// Calls to the service. A call that is sent again has the same key, so that it teaches once.

const TRIES = 5;
let token = sessionStorage.getItem("token");

export class Problem extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

export function useToken(value) {
  token = value;
  sessionStorage.setItem("token", value);
}

export const pause = (seconds) => new Promise((resolve) => setTimeout(resolve, 1000 * seconds));

function newKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function options(verb, body) {
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  if (verb === "GET") return { headers };
  Object.assign(headers, { "Content-Type": "application/json", "Idempotency-Key": newKey() });
  return { method: verb, headers, body: JSON.stringify(body ?? {}) };
}

async function send(url, request) {
  try {
    return await fetch(url, request);
  } catch {
    throw new Problem(0, "The service does not answer. This page goes on asking.");
  }
}

async function problemOf(response) {
  const told = await response.json().catch(() => ({}));
  return new Problem(response.status, told.detail ?? `The service answered with the status ${response.status}.`);
}

export async function call(verb, path, body) {
  const url = new URL(`v1/${path}`, document.baseURI);
  const request = options(verb, body);
  let response = await send(url, request);
  for (let tries = 1; response.status === 429 && tries < TRIES; tries += 1) {
    await pause(Number(response.headers.get("Retry-After")) || 1);
    response = await send(url, request);
  }
  if (response.status === 401) document.dispatchEvent(new CustomEvent("token-wanted"));
  if (response.status === 401 && !token) throw new Problem(401, ""); // the field says enough
  if (!response.ok) throw await problemOf(response);
  return response.json();
}

export const get = (path) => call("GET", path);
export const post = (path, body) => call("POST", path, body);

const part = encodeURIComponent;
export const collectionPath = (collection) => `collections/${part(collection)}`;
export const tenantPath = (collection, tenant) => `collections/${part(collection)}/tenants/${part(tenant)}`;
