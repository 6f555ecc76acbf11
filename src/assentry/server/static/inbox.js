// The inbox, live: the list keeps its places, cards come without loading a page, and decisions are told at once.
import { entered } from "./fields.js";
import { csrf, fetched, placed, toast, told } from "./page.js";

const at = () => location.pathname + location.search;
const card = () => document.getElementById("card");
const isInbox = () => document.body.classList.contains("inbox");
let latest = 0;
let visiting = Promise.resolve();

function visit(url, options) {
  const went = visited(url, options);
  visiting = went.catch(() => {});
  return went;
}

async function visited(url, { push = true, regions = ["list", "card", "beside"] } = {}) {
  const mine = ++latest;
  // Until the new card is there the old one takes no key: it would be pressed in the belief that it is the new one.
  const held = card()?.contains(document.activeElement);
  if (regions.includes("card")) card()?.setAttribute("inert", "");
  const { answer, page } = await fetched(url).catch(() => ({}));
  if (mine !== latest) return;
  if (!page) {
    card()?.removeAttribute("inert");
    return toast("The server could not be reached; what is shown may be old.");
  }
  if (!page.getElementById("card")) return void location.assign(url);
  if (push) history.pushState(null, "", answer.url);
  document.body.className = page.body.className;
  keep();
  placed(page, regions);
  if (held) taken();
  seen();
}

/** The focus is on what is shown now, unless somebody has put it elsewhere meanwhile. */
function taken() {
  if (document.activeElement && document.activeElement !== document.body) return;
  const listed = document.body.classList.contains("at-list") && matchMedia("(max-width: 720px)").matches;
  ((listed && document.querySelector("#queue .item a")) || card())?.focus({ preventScroll: true });
}

/** A key or a click that was meant for the card before must not decide about one that nobody has read yet: neither
 * where another card came, nor where this one is about something else now, nor where it was only just opened. */
const GLANCE = 700;
const named = (shown) => `${shown?.dataset.id} ${shown?.dataset.digest}`;
let known = "";
let freshUntil = 0;
function changed() {
  const come = card();
  if (!come) return;
  if (named(come) === known) return void resting();
  known = named(come);
  rest();
  begun(come);
}

function rest() {
  freshUntil = performance.now() + GLANCE;
  resting();
}

/** Also where the same card is drawn anew meanwhile. */
function resting() {
  const left = freshUntil - performance.now();
  const shown = document.querySelector("#card.pending, #main[data-preview]");
  shown?.toggleAttribute("data-fresh", left > 0);
  if (shown && left > 0) setTimeout(resting, left + 1);
}

/** While a card or a preview is that fresh nothing on it decides, by whatever hand. */
function tooSoon(event) {
  if (!event.target.closest?.("#card[data-fresh] :is(#decide, .options), #main[data-fresh] form")) return;
  const button = event.submitter ?? event.target.closest("button");
  if ((event.type === "click" && !button) || button?.hasAttribute("data-back")) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  toast(card() ? "This card has only just come: read it first." : "This page was only just opened: read it first.");
}

/** A preview whose button is on the screen with everything above it is answered with Enter; else it is scrolled first. */
function previewed() {
  const button = document.querySelector("#main[data-preview] button.primary");
  if (!button) return;
  rest();
  if (scrollY > 0 || button.getBoundingClientRect().bottom > innerHeight) return;
  (button.form.querySelector("[name=confirm]") ?? button).focus();
}

function begun(come) {
  const draft = drafts.get(named(come)) ?? [];
  for (const [name, value] of draft) {
    const field = come.querySelector(`[name="${CSS.escape(name)}"]`);
    if (!field) continue;
    field.value = value;
    const box = field.closest(".act");
    if (box) box.open = true;
  }
}

/** What was begun on a card is there again when one comes back to it. */
const drafts = new Map();
const TEXTS = "textarea, input:not([type=hidden]):not([type=radio]):not([type=checkbox]):not(.sift)";
function keep() {
  const left = card();
  if (!left?.classList.contains("pending")) return;
  const typed = [...left.querySelectorAll(TEXTS)].filter((field) => field.name && field.name !== "confirm" && field.value !== field.defaultValue);
  if (typed.length && !left.dataset.sent) drafts.set(named(left), typed.map((field) => [field.name, field.value]));
  else drafts.delete(named(left));
}

/** A soft window begins when somebody who may decide has it on the screen. */
const shownOnce = new Set();
function seen() {
  const shown = card();
  const key = `${shown?.dataset.code}:${shown?.dataset.version}`;
  if (!shown?.classList.contains("pending") || shownOnce.has(key) || document.hidden) return;
  if (document.body.classList.contains("at-list") && matchMedia("(max-width: 720px)").matches) return;
  shownOnce.add(key);
  fetch(`/r/${shown.dataset.code}/seen`, { method: "POST", headers: { "x-assentry-csrf": csrf() } }).catch(() => {});
}

/** What is folded has to be opened before it is approved; of an option, what that option runs. */
const NOT_OPENED = "[data-must-open]:not([open]):not([data-opened])";
function isFolded(button) {
  const about = button.closest(".options li") ?? document.querySelector("#card .args");
  return about?.querySelector(NOT_OPENED) !== null;
}

function unread() {
  for (const button of document.querySelectorAll("#card [data-needs-open]:not([data-wait]):not([data-closed])"))
    button.disabled = isFolded(button);
  const note = document.getElementById("unread");
  if (note) note.hidden = ![...document.querySelectorAll("#card [data-needs-open]")].some(isFolded);
}

function opened(event) {
  if (event.target.matches?.("[data-must-open]") && event.target.open) event.target.dataset.opened = "";
  unread();
}

const firstShown = new Map();
/** Approving something critical takes a moment longer than a slip of the hand. */
function guarded() {
  for (const form of document.querySelectorAll("form[data-phrase]")) {
    const button = form.querySelector("[data-wait]:not([data-closed])");
    if (!button || form.dataset.ready) continue;
    form.dataset.ready = "yes";
    const about = `${named(card())} ${form.dataset.phrase}`;
    if (!firstShown.has(about)) firstShown.set(about, Date.now());
    const from = firstShown.get(about) + Number(button.dataset.wait) * 1000;
    const note = document.createElement("small");
    note.className = "wait";
    button.after(note);
    const typed = form.querySelector('[name="confirm"]');
    const check = () => {
      const left = Math.ceil((from - Date.now()) / 1000);
      const folded = button.dataset.needsOpen !== undefined && isFolded(button);
      button.disabled = left > 0 || folded || typed.value.trim() !== form.dataset.phrase;
      note.textContent = left > 0 ? `Read it first: ${left} s` : folded ? "Open what is folded first" : typed.value.trim() && button.disabled ? `Not yet what is to be typed: ${form.dataset.phrase}` : "";
      if (left > 0 && form.isConnected) setTimeout(check, 200);
    };
    form.addEventListener("input", check);
    document.getElementById("card")?.addEventListener("toggle", check, true);
    check();
  }
}

const decidedHere = new Set();
async function decided(form, button) {
  const fields = new FormData(form, button);
  const before = card();
  const held = before.contains(document.activeElement) ? document.activeElement : null;
  before.dataset.sent = "yes";
  const pressable = [...before.querySelectorAll("button:not([disabled])")];
  for (const each of pressable) each.disabled = true;
  const again = (problem) => {
    // What was typed stays, and so does the focus; only what is wrong is new.
    delete before.dataset.sent;
    for (const each of pressable) each.disabled = false;
    complain(problem);
    held?.focus({ preventScroll: true });
  };
  let answer;
  try {
    answer = await fetch(form.action, {
      method: "POST", body: new URLSearchParams(fields), headers: { accept: "application/json" }, credentials: "same-origin",
    });
  } catch {
    return again("The server could not be reached. Nothing was decided here; try again.");
  }
  const said = await answer.json().catch(() => ({}));
  if (answer.status === 403 && said.step_up) return void location.assign(`${said.step_up}?next=/r/${before.dataset.code}`);
  if (answer.status === 422) return again(said.detail);
  if (!answer.ok) {
    toast(said.detail || "That did not work.");
    await visit(`/r/${before.dataset.code}${location.search}`, { push: false, regions: ["list", "card", "beside"] });
    taken();
    return;
  }
  decidedHere.add(before.dataset.id);
  toast(`${done(said)} ${said.title}`, { href: `/r/${said.code}`, text: "see it" });
  await next(before.dataset.id);
}

const DONE = { approve: "Approved:", deny: "Denied:", choose: "Chosen:", answer: "Answered:", revise: "Sent back:", dismiss: "Dismissed:" };
function done(said) {
  if (said.state === "pending") return "Your voice counts; somebody else's is needed too:";
  return DONE[said.did] ?? `${said.did}:`;
}

function complain(text) {
  const bar = document.getElementById("decide");
  if (!bar) return toast(text);
  const old = bar.querySelector(".complaint");
  const made = document.createElement("p");
  made.className = "complaint";
  made.setAttribute("role", "alert");
  made.textContent = text;
  if (old) old.replaceWith(made);
  else bar.prepend(made);
}

/** After a decision comes the next one that waits. */
async function next(id) {
  const item = document.querySelector(`#queue .item[data-id="${CSS.escape(id)}"]`);
  const after = [...document.querySelectorAll("#queue .item:not(.over)")].filter((each) => each !== item);
  const below = item ? after.find((each) => item.compareDocumentPosition(each) & Node.DOCUMENT_POSITION_FOLLOWING) : null;
  const chosen = below ?? after[0];
  await visit(chosen && !matchMedia("(max-width: 720px)").matches ? chosen.querySelector("a").href : `/${location.search}`);
  taken();
}

/** A decision that was sent from a page of its own, such as a preview, is told and followed like one from the card. */
function cameBack() {
  const query = new URLSearchParams(location.search);
  if (!query.has("told")) return;
  query.delete("told");
  history.replaceState(null, "", location.pathname + (query.size ? `?${query}` : ""));
  const said = document.querySelector("#card [data-told]");
  if (!said) return;
  const title = document.querySelector("#card h1").textContent;
  toast(`${said.dataset.told}: ${title}`, { href: `/r/${card().dataset.code}`, text: "see it" });
  next(card().dataset.id);
}

/** Live: what is shown changes in place, what is new comes to the end, and nothing moves under the hand. */
let waiting = new Map();
let scheduled;
function heard(event) {
  const found = event.detail;
  if (!isInbox()) return;
  if (found.about === "request") waiting.set(found.id, found);
  else if (found.about === "run") {
    if (document.getElementById("beside")?.dataset.run !== found.id) return;
    waiting.set(found.id, found);
  } else if (found.about !== "look" && found.about !== "switch" && found.about !== "policy") return;
  else waiting.set("look", found);
  clearTimeout(scheduled);
  scheduled = setTimeout(refresh, 60);
}

async function refresh() {
  // A page that was asked for before the news came must not be put in place of what the news brings.
  await visiting;
  const news = waiting;
  waiting = new Map();
  const shown = card();
  const began = latest;
  const overtaken = () => latest !== began || card() !== shown;
  const about = news.get(shown?.dataset.id);
  const again = () => {
    waiting = new Map([...news, ...waiting]);
    clearTimeout(scheduled);
    scheduled = setTimeout(refresh, 60);
  };
  let { answer, page } = await fetched(at()).catch(() => ({}));
  if (!answer?.ok) return;
  if (overtaken()) return again();
  merged(page);
  const now = page.getElementById("card");
  if (!shown || !now) return;
  const same = now.dataset.id === shown.dataset.id && now.dataset.likeness === shown.dataset.likeness;
  if (same) return aside(page);
  if (!shown.dataset.id) return placed(page, ["card", "beside"]);
  if (now.dataset.id !== shown.dataset.id && !news.has("look") && !about) return;
  if (now.dataset.id !== shown.dataset.id) {
    const code = shown.dataset.code;
    ({ page } = await fetched(`/r/${code}${location.search}`).catch(() => ({})));
    if (!page) return;
    if (overtaken()) return again();
  }
  const later = page.getElementById("card");
  // What is being sent from here is answered for.
  if (shown.dataset.sent || !later || later.dataset.likeness === shown.dataset.likeness) return;
  if (later.dataset.state !== "pending" && shown.dataset.state === "pending" && !decidedHere.has(shown.dataset.id))
    toast(later.dataset.by ? `${later.dataset.by} decided ${shown.dataset.code}: ${later.dataset.state}` : `${shown.dataset.code} is ${later.dataset.state} now`);
  const fields = [...shown.querySelectorAll(`${TEXTS}, select`)];
  // A field that has the focus is typed into in a moment: taken away, the letters would be keys of the next card.
  const half = fields.some((field) => field === document.activeElement || (field.value && field.value !== field.defaultValue));
  if (later.dataset.state === "pending" && later.dataset.digest === shown.dataset.digest) kept(shown, later);
  else if (half && later.dataset.state === "pending") return toast(`${shown.dataset.code} changed while you typed; it is shown anew when you send`);
  else if (fields.includes(document.activeElement)) document.dispatchEvent(new CustomEvent("assentry:taken"));
  placed(page, ["card", "beside"]);
}

function aside(page) {
  const here = document.getElementById("beside");
  const there = page.getElementById("beside");
  if (here && there && here.innerHTML !== there.innerHTML && !here.contains(document.activeElement)) placed(page, ["beside"]);
}

/** The same thing drawn anew keeps what was opened and what was typed. */
function kept(old, made) {
  const pairs = (selector) => {
    const before = [...old.querySelectorAll(selector)];
    const after = [...made.querySelectorAll(selector)];
    return before.length === after.length ? before.map((each, at) => [each, after[at]]) : [];
  };
  for (const [before, after] of pairs("details")) {
    after.open = before.open;
    if (before.dataset.opened !== undefined) after.dataset.opened = "";
  }
  for (const [before, after] of pairs("input:not([type=hidden]), textarea, select")) {
    if (before.name !== after.name) continue;
    // As attributes and text, since the node that is placed is a copy.
    if (before.type === "checkbox" || before.type === "radio") after.toggleAttribute("checked", before.checked);
    else if (before.tagName === "TEXTAREA") after.textContent = before.value;
    else if (before.tagName === "SELECT") [...after.options].forEach((each, at) => each.toggleAttribute("selected", at === before.selectedIndex));
    else after.setAttribute("value", before.value);
  }
}

function merged(page) {
  const here = document.getElementById("queue");
  const there = page.getElementById("queue");
  if (!here || !there) return;
  if (page.body.dataset.waiting !== undefined) told(Number(page.body.dataset.waiting));
  if (!here.children.length) return placed(page, ["list"]);
  const known = new Map([...here.children].map((item) => [item.dataset.id, item]));
  let fresh = 0;
  for (const item of there.children) {
    const old = known.get(item.dataset.id);
    if (!old) {
      const made = document.importNode(item, true);
      made.classList.add("new");
      made.removeAttribute("aria-current");
      here.append(made);
      fresh += 1;
    } else if (old.dataset.version !== item.dataset.version) {
      // In place, so that a link that has the focus keeps it; and what is chosen here is no business of the server.
      for (const { name, value } of item.attributes) if (name !== "aria-current") old.setAttribute(name, value);
      old.querySelector("a").replaceChildren(...document.importNode(item.querySelector("a"), true).childNodes);
    }
    known.delete(item.dataset.id);
  }
  for (const gone of known.values()) {
    gone.classList.add("over");
    const due = gone.querySelector(".due");
    if (due) {
      due.textContent = "decided";
      due.removeAttribute("data-until");
    }
  }
  const news = document.getElementById("news");
  const all = here.querySelectorAll(".new").length;
  if (news && all && fresh) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = `${all} new at the end; sort in (.)`;
    button.addEventListener("click", sorted);
    news.replaceChildren(button);
    notify(there);
  }
}

async function sorted() {
  // No visit: a card that is on its way still comes.
  const { page } = await fetched(at()).catch(() => ({}));
  if (page) placed(page, ["list"]);
}

/** Only where somebody asked for it, and never with what an agent wrote. */
function notify() {
  if (document.hidden && window.Notification?.permission === "granted" && localStorage.getItem("assentry-notify") === "yes")
    new Notification("Assentry", { body: "An agent waits for a decision.", tag: "assentry" });
}

function sift(event) {
  if (!event.target.matches?.(".sift")) return;
  const wanted = event.target.value.toLowerCase();
  for (const item of event.target.parentElement.querySelectorAll("li")) item.hidden = !item.textContent.toLowerCase().includes(wanted);
}

export function startInbox() {
  document.addEventListener("input", sift);
  document.addEventListener("toggle", opened, true);
  known = named(card());
  document.addEventListener("assentry:placed", () => { changed(); unread(); guarded(); });
  document.addEventListener("assentry:opened", rest);
  document.addEventListener("click", tooSoon, true);
  document.addEventListener("submit", tooSoon, true);
  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-open-all]")) {
      event.preventDefault();
      for (const fold of document.querySelectorAll("#card .args [data-must-open], #card .options details")) fold.open = true;
    }
  });
  unread();
  guarded();
  if (!isInbox()) return previewed();
  // After a complaint about a form the page stands at the address of that form, which cannot be loaded again.
  if (/\/(preview|edit|decide|afterwards|similar|similar\/give)$/.test(location.pathname) && card()?.dataset.code) history.replaceState(null, "", `/r/${card().dataset.code}${location.search}`);
  // A form that is there again after a complaint, or on the way back from a preview, is gone on with; who types already
  // is not moved.
  const begunWith = document.querySelector("#decide .act[open]:not([data-act=answer])");
  if (begunWith && document.activeElement === document.body) entered(begunWith);
  seen();
  cameBack();
  document.addEventListener("visibilitychange", seen);
  document.addEventListener("assentry:event", heard);
  document.addEventListener("assentry:sort", sorted);
  document.addEventListener("click", (event) => {
    const link = event.target.closest("#queue a, .tabs a, a.back, .steps a, a[data-next], #toast a");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    const stays = link.closest("#queue");
    if (stays) {
      for (const item of document.querySelectorAll("#queue [aria-current]")) item.removeAttribute("aria-current");
      link.closest(".item").setAttribute("aria-current", "true");
    }
    visit(link.href, { regions: stays ? ["card", "beside"] : undefined });
  });
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form.dataset.decides === undefined) return;
    event.preventDefault();
    decided(form, event.submitter);
  });
  addEventListener("popstate", () => visit(at(), { push: false }));
}
