// Pages beside the inbox: those that show what is under way are drawn anew when something changes.
import { fetched, placed } from "./page.js";

let scheduled;

async function drawn() {
  const busy = document.activeElement?.closest("form") || [...document.querySelectorAll("#main input:not([type=hidden]), #main textarea")].some((each) => each.value !== each.defaultValue);
  // What somebody was just told stays until they have seen to it.
  if (busy || document.querySelector("#main [role=alert]")) return;
  const { page } = await fetched(location.href).catch(() => ({}));
  if (page) placed(page, ["main"]);
}

function notifies() {
  const button = document.querySelector("[data-notify]");
  if (!button) return;
  const state = document.getElementById("notify-state");
  const told = () => {
    const on = window.Notification?.permission === "granted" && localStorage.getItem("assentry-notify") === "yes";
    button.textContent = on ? "Stop telling me on the desktop" : "Tell me on the desktop when something waits";
    state.textContent = window.Notification?.permission === "denied" ? "The browser does not allow it." : on ? "On." : "";
  };
  button.addEventListener("click", async () => {
    const on = localStorage.getItem("assentry-notify") === "yes" && window.Notification?.permission === "granted";
    if (!on && (await window.Notification?.requestPermission()) === "granted") localStorage.setItem("assentry-notify", "yes");
    else localStorage.removeItem("assentry-notify");
    told();
  });
  told();
}

export function startSheets() {
  notifies();
  if (!document.body.classList.contains("live-page")) return;
  document.addEventListener("assentry:event", (event) => {
    if (!["request", "run", "switch", "look"].includes(event.detail.about)) return;
    clearTimeout(scheduled);
    scheduled = setTimeout(drawn, 150);
  });
}
