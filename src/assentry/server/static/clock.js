// Time that is left, counted down in place.
const UNITS = [[86400, "days"], [3600, "h"], [60, "min"]];

function span(seconds) {
  const left = Math.max(0, Math.floor(seconds));
  for (const [size, unit] of UNITS) if (left >= 2 * size) return `${Math.floor(left / size)} ${unit}`;
  return `${left} s`;
}

function tick() {
  const now = Date.now();
  for (const each of document.querySelectorAll("time[data-until]")) {
    const left = (Date.parse(each.dataset.until) - now) / 1000;
    const text = left > 0 ? `${span(left)} left` : "time is up";
    if (each.textContent !== text) each.textContent = text;
    each.classList.toggle("soon", left < 900);
  }
  for (const each of document.querySelectorAll("time[data-since]")) {
    const text = span((now - Date.parse(each.dataset.since)) / 1000);
    if (each.textContent !== text) each.textContent = text;
  }
}

export function startClocks() {
  tick();
  setInterval(tick, 1000);
  document.addEventListener("assentry:placed", tick);
}
