// Fetching pages of our own and putting their regions in place of the ones that are shown.

// The only HTML that is ever parsed comes from this server, which has escaped everything in it.
const policy = window.trustedTypes
  ? window.trustedTypes.createPolicy("assentry", { createHTML: (text) => text })
  : { createHTML: (text) => text };

export const csrf = () => document.querySelector('meta[name="assentry-csrf"]')?.content ?? "";

export async function fetched(url, options = {}) {
  const answer = await fetch(url, { headers: { accept: "text/html" }, credentials: "same-origin", ...options });
  const text = await answer.text();
  const page = new DOMParser().parseFromString(policy.createHTML(text), "text/html");
  return { answer, page };
}

/** Regions are replaced only where they differ, so that focus and what was typed elsewhere stay. */
export function placed(page, names) {
  for (const name of names) {
    const here = document.getElementById(name);
    const there = page.getElementById(name);
    if (here && there) put(here, there);
  }
  const count = page.body.dataset.waiting;
  if (count !== undefined) told(Number(count));
  document.title = page.title || document.title;
  document.dispatchEvent(new CustomEvent("assentry:placed"));
}

/** The place that was scrolled to and the field that was typed in stay, if they are still there. */
function put(here, there) {
  const made = document.importNode(there, true);
  const same = here.dataset.id === made.dataset.id;
  const top = here.scrollTop;
  const held = same && here.contains(document.activeElement) ? document.activeElement : null;
  const [from, to] = [held?.selectionStart, held?.selectionEnd];
  const place = held && places(here).indexOf(held);
  const before = held && places(here).length;
  here.replaceWith(made);
  if (same) made.scrollTop = top;
  const after = held ? places(made) : [];
  const field = after.length === before ? after[place] : held?.name ? made.querySelector(`[name="${CSS.escape(held.name)}"]`) : null;
  if (!field || field.tagName !== held.tagName) return;
  field.focus({ preventScroll: true });
  if (typeof from === "number") field.setSelectionRange(from, to);
}

const places = (region) => [...region.querySelectorAll("a, button, input:not([type=hidden]), textarea, select, summary")];

/** The number in the title, the bar and the icon. */
export function told(waiting) {
  document.body.dataset.waiting = String(waiting);
  const few = waiting > 99 ? "99+" : String(waiting);
  for (const count of document.querySelectorAll("[data-count]")) if (count.textContent !== few) count.textContent = few;
  const bare = document.title.replace(/^\(\d+\+?\) /, "");
  document.title = waiting ? `(${few}) ${bare}` : bare;
  icon(waiting ? few : "");
}

function icon(text) {
  const link = document.querySelector('link[rel="icon"]');
  const wanted = text ? `/icon.svg?waiting=${encodeURIComponent(text)}` : "/icon.svg";
  if (link && link.getAttribute("href") !== wanted) link.setAttribute("href", wanted);
}

let fading;
export function toast(text, link) {
  const box = document.getElementById("toast");
  if (!box) return;
  box.textContent = text;
  if (link) {
    const anchor = document.createElement("a");
    anchor.href = link.href;
    anchor.textContent = link.text;
    box.append(anchor);
  }
  box.classList.add("on");
  clearTimeout(fading);
  fading = setTimeout(() => box.classList.remove("on"), 6000);
}
