// One live connection for this browser however many tabs are open: one tab holds it and tells the others.
const channel = "BroadcastChannel" in window ? new BroadcastChannel("assentry") : null;

function heard(event) {
  document.dispatchEvent(new CustomEvent("assentry:event", { detail: event }));
}

/** A line that breaks for a moment is nobody's business. */
const DOUBT = 3000;
let doubting;

function shown(live) {
  const mark = document.getElementById("live");
  if (!mark) return;
  mark.textContent = live ? "live" : "not live";
  mark.classList.toggle("on", live);
  clearTimeout(doubting);
  const banner = document.getElementById("offline");
  if (live) banner.hidden = true;
  else doubting = setTimeout(() => { banner.hidden = false; }, DOUBT);
}

function hold() {
  let source;
  const open = () => {
    source = new EventSource("/api/v1/events");
    source.onopen = () => tell({ about: "live", on: true });
    source.onmessage = (message) => tell(JSON.parse(message.data));
    source.onerror = () => {
      tell({ about: "live", on: false });
      if (source.readyState === EventSource.CLOSED) setTimeout(open, 2000);
    };
  };
  open();
  addEventListener("pagehide", () => source.close(), { once: true });
}

function tell(event) {
  channel?.postMessage(event);
  took(event);
}

function took(event) {
  if (event.about === "live") shown(event.on);
  else if (event.about === "who") return;
  else {
    shown(true);
    heard(event);
  }
}

export function listen() {
  if (!document.getElementById("live")) return;
  if (!channel || !navigator.locks) return hold();
  let leads = false;
  channel.onmessage = (message) => {
    if (message.data.about === "who" && leads) channel.postMessage({ about: "look", id: "", version: 0 });
    else took(message.data);
  };
  // Whoever gets the lock holds the connection until its tab closes; then the next in line does.
  navigator.locks.request("assentry-live", () => {
    leads = true;
    hold();
    return new Promise(() => {});
  });
  channel.postMessage({ about: "who" });
}
