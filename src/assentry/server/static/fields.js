// Fields that are ready to be typed in: a line is selected when it gets the focus, and longer text continues at its end.
const FIRST = "input:not([type=hidden]):not([type=radio]):not([disabled]), textarea, select, button";
const NUMBERS = "[inputmode=numeric], [inputmode=decimal]";

/** The first field of this form has the focus; what is typed replaces a line, and is added to longer text. */
export function entered(box) {
  const field = box.querySelector(FIRST);
  if (!field) return;
  field.focus();
  if (field.tagName === "TEXTAREA") field.setSelectionRange(field.value.length, field.value.length);
  else field.select?.();
}

/**
 * A form that is opened with the mouse is entered as by its key, before anything can be typed: `toggle` comes later and
 * would move the cursor of whoever types already. A finger opens it only: a keyboard would cover it.
 */
function unfolded(event) {
  const summary = event.target.closest?.("#decide .act > summary");
  const box = summary?.parentElement;
  if (event.pointerType !== "mouse" || !box || box.open) return;
  event.preventDefault();
  box.open = true;
  entered(box);
}

/** The click that brings the focus to a number selects it; the next one puts the cursor into it. */
let came = null;
function pressed(event) {
  const field = event.target.closest?.("label")?.control ?? event.target;
  came = field !== document.activeElement && field.matches?.(NUMBERS) ? field : null;
}

function clicked(event) {
  if (came === null || event.target !== came) return;
  if (came.selectionStart === came.selectionEnd) came.select();
  came = null;
}

export function startFields() {
  document.addEventListener("pointerdown", pressed);
  document.addEventListener("click", clicked);
  document.addEventListener("click", unfolded);
}
