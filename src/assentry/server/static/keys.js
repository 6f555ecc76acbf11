// Everything by keyboard. A key presses what is already on the page, so that it never does more than a click would.
import { entered } from "./fields.js";
import { toast } from "./page.js";

const here = (selector) => document.querySelector(selector);

function typing(target) {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))
    && !["checkbox", "radio", "button", "submit"].includes(target.type);
}

function moved(step) {
  const items = [...document.querySelectorAll("#queue .item")];
  if (!items.length) return;
  const at = items.findIndex((item) => item.hasAttribute("aria-current"));
  const next = items[Math.min(items.length - 1, Math.max(0, at + step))];
  next.querySelector("a").click();
  next.scrollIntoView({ block: "nearest" });
}

const leaving = () => Boolean(here("#card[inert]"));

/** To what is chosen in the list: its card, ready to be read and scrolled. */
function into() {
  const chosen = here("#queue .item[aria-current] a") ?? here("#queue .item a");
  if (document.body.classList.contains("at-list") && matchMedia("(max-width: 720px)").matches) chosen?.click();
  else here("#card")?.focus();
}

/** What had the focus when a form was opened by its key. */
let from = null;

function act(name) {
  if (leaving()) return true;
  const box = here(`#decide .act[data-act="${name}"]`);
  if (!box) return false;
  from = document.activeElement === document.body ? null : document.activeElement;
  for (const other of document.querySelectorAll("#decide .act[open]")) if (other !== box) other.open = false;
  box.open = true;
  entered(box);
  box.scrollIntoView({ block: "nearest" });
  return true;
}

function press(key) {
  if (leaving()) return true;
  const button = here(`#card [data-key="${CSS.escape(key)}"]`);
  if (!button) return false;
  if (here("#card").dataset.fresh !== undefined) toast("This card has only just come: read it first.");
  else if (button.disabled && button.dataset.needsOpen !== undefined) shown(button, key);
  else button.click();
  return true;
}

/** What has to be opened first is opened by the key that asks for it; the same key again then decides. */
function shown(button, key) {
  const folds = button.closest(".options li") ?? here("#card .args");
  for (const fold of folds.querySelectorAll("details:not(.raw-json)")) fold.open = true;
  folds.scrollIntoView({ block: "nearest" });
  document.dispatchEvent(new CustomEvent("assentry:opened"));
  toast(`Opened: this is exactly what would run. Press ${key} again once you have read it.`);
}

/** A permission is not made from a card that has not been read: what is collapsed is expanded first. */
function unread(name, key) {
  const button = here(`#decide .act[data-act="${name}"] button[data-needs-open]:disabled`);
  if (!button || leaving()) return false;
  shown(button, key);
  return true;
}

/** One step back: from a form to what had the focus before it, from a preview to its form, from a card to the list. */
function left(target) {
  const around = target.closest?.(".act[open]:not([data-act=answer])");
  if (typing(target)) target.blur();
  // Whoever types elsewhere leaves that field; a form that is open meanwhile stays open.
  if (typing(target) && !around) return;
  const open = around ?? here("#decide .act[open]:not([data-act=answer])");
  if (open) {
    open.open = false;
    if (from?.isConnected) from.focus();
    else open.querySelector("summary")?.focus();
    from = null;
  } else if (here("[data-back]")) here("[data-back]").click();
  else if (document.body.classList.contains("at-card") && matchMedia("(max-width: 720px)").matches) here(".back")?.click();
}

/** Presses the button of a form that has one; where it may not be pressed yet, or there is a choice, nothing is sent. */
function sent(form) {
  const buttons = form.querySelectorAll("button:not([data-back])");
  if (buttons.length === 1 && !buttons[0].disabled) form.requestSubmit(buttons[0]);
}

const KEYS = {
  Enter: () => into(),
  j: () => moved(1),
  k: () => moved(-1),
  a: () => press("a") || act("approve") || act("answer") || (here("#card .options") && toast("There are options here: choose one by its number.")),
  d: () => act("deny") || press("d"),
  m: () => act("modify"),
  r: () => act("revise"),
  g: () => unread("grant", "g") || act("grant"),
  u: () => press("u") || here("#toast a")?.click(),
  o: () => here("[data-open-all]")?.click(),
  "/": () => here("#search")?.focus(),
  ".": () => document.dispatchEvent(new CustomEvent("assentry:sort")),
  "?": () => here("#help")?.showModal(),
};

/** What somebody still types at a field that was taken away under their hands is no key; after a short rest it is. */
const REST = 1000;
let deafUntil = 0;

export function startKeys() {
  document.addEventListener("assentry:taken", () => { deafUntil = Date.now() + REST; });
  addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && typing(event.target) && event.target.form) {
      event.preventDefault();
      if (!event.repeat) sent(event.target.form);
      return;
    }
    // A key that is held down neither sends a form a second time nor presses the button of the page that comes next.
    if (event.key === "Enter" && event.repeat && event.target.tagName !== "TEXTAREA") event.preventDefault();
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.repeat) return;
    if (document.querySelector("dialog[open]")) return;
    if (event.key === "Escape") return left(event.target);
    if (typing(event.target)) return;
    if (event.key === "Enter" && event.target.closest?.("a, button, summary, input, label")) return;
    const does = KEYS[event.key] ?? (/^[1-9]$/.test(event.key) ? () => press(event.key) : null);
    if (!does) return;
    event.preventDefault();
    if (Date.now() < deafUntil) deafUntil = Date.now() + REST;
    else does();
  });
}
