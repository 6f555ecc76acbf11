// How long ago and how much time is left, kept current in place. Rounds and words as core/text.py does.
const UNITS = [[86400, "day", "days"], [3600, "h", "h"], [60, "min", "min"], [1, "s", "s"]];
const rounded = (number) => Math.floor(number + 0.5);

export function span(seconds) {
  if (seconds < 1) return "less than 1 s";
  for (const [place, [size, one, many]] of UNITS.slice(0, -1).entries()) {
    const smaller = UNITS[place + 1][0];
    const whole = rounded(seconds / smaller) * smaller;
    if (whole !== size && whole < 2 * size) continue;
    const number = rounded(seconds / size);
    return `${number} ${number === 1 ? one : many}`;
  }
  return `${rounded(seconds)} s`;
}

const WORDS = {
  until: (seconds) => (seconds < 0 ? `${span(-seconds)} left` : "time is up"),
  since: span,
  ago: (seconds) => (seconds < 1 ? "just now" : `${span(seconds)} ago`),
};

function tick() {
  const now = Date.now();
  for (const [what, words] of Object.entries(WORDS))
    for (const each of document.querySelectorAll(`time[data-${what}]`)) {
      const seconds = (now - Date.parse(each.dataset[what])) / 1000;
      const text = words(seconds);
      if (each.textContent !== text) each.textContent = text;
      if (what === "until") each.classList.toggle("soon", seconds > -900);
    }
}

export function startClocks() {
  tick();
  setInterval(tick, 1000);
  document.addEventListener("assentry:placed", tick);
}
