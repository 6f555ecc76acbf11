// Fetching pages of our own and putting their regions in place of the ones that are shown.

// The only HTML that is ever parsed comes from this server, which has escaped everything in it.
const policy = window.trustedTypes
  ? window.trustedTypes.createPolicy("assent", { createHTML: (text) => text })
  : { createHTML: (text) => text };

export const csrf = () => document.querySelector('meta[name="assent-csrf"]')?.content ?? "";

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
    if (here && there) here.replaceWith(document.importNode(there, true));
  }
  const count = page.body.dataset.waiting;
  if (count !== undefined) told(Number(count));
  document.title = page.title || document.title;
  document.dispatchEvent(new CustomEvent("assent:placed"));
}

/** The number in the title, the bar and the icon. */
export function told(waiting) {
  document.body.dataset.waiting = String(waiting);
  const few = waiting > 99 ? "99+" : String(waiting);
  const count = document.getElementById("count");
  if (count && count.textContent !== few) count.textContent = few;
  const bare = document.title.replace(/^\(\d+\+?\) /, "");
  document.title = waiting ? `(${few}) ${bare}` : bare;
  icon(waiting ? few : "");
}

let drawn = null;
function icon(text) {
  if (drawn === text) return;
  drawn = text;
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 32;
  const pen = canvas.getContext("2d");
  if (!pen) return;
  pen.fillStyle = text ? "#b42318" : "#1b1f24";
  pen.beginPath();
  pen.roundRect(0, 0, 32, 32, 7);
  pen.fill();
  pen.fillStyle = pen.strokeStyle = "#fff";
  if (text) {
    pen.font = `bold ${text.length > 2 ? 14 : 19}px system-ui, sans-serif`;
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    pen.fillText(text, 16, 17);
  } else {
    pen.lineWidth = 3.5;
    pen.lineCap = pen.lineJoin = "round";
    pen.beginPath();
    pen.moveTo(8, 17);
    pen.lineTo(13, 22);
    pen.lineTo(24, 10);
    pen.stroke();
  }
  canvas.toBlob((blob) => {
    const link = document.querySelector('link[rel="icon"]');
    if (blob && link) link.href = URL.createObjectURL(blob);
  });
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
