// Elements made of text and attributes. Text never becomes HTML.

const SVG = "http://www.w3.org/2000/svg";

export const $ = (id) => document.getElementById(id);

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

export const make = (tag, attributes = {}, ...children) =>
  fill(document.createElement(tag), attributes, children);

export const svg = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS(SVG, tag), attributes, children);

// An element is only changed when it would look different: focus and selection stay.
export function show(element, ...children) {
  const next = make("div", {}, ...children);
  if (next.innerHTML !== element.innerHTML) element.replaceChildren(...next.childNodes);
}

export function say(text, bad = false) {
  const message = $("message");
  message.textContent = text;
  message.classList.toggle("bad", bad);
}

// Run what a person asked for; a refusal is shown in the service's own sentence.
export async function attempt(work) {
  try {
    return await work();
  } catch (problem) {
    say(problem.message, true);
    return null;
  }
}

export function confirmed(title, text, verb) {
  const dialog = $("confirm");
  $("confirm-title").textContent = title;
  $("confirm-text").textContent = text;
  $("confirm-yes").textContent = verb;
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}
