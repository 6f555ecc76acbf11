// Buttons that ask the device for a passkey. They show only where the browser can do it.
const csrf = () => document.querySelector('meta[name="assentry-csrf"]')?.content ?? "";

async function sent(path, fields = {}) {
  const answer = await fetch(path, {
    method: "POST", body: new URLSearchParams(fields), credentials: "same-origin",
    headers: { accept: "application/json", "x-assentry-csrf": csrf() },
  });
  const said = await answer.json().catch(() => ({}));
  if (said.step_up) location.assign(`${said.step_up}?next=${encodeURIComponent(said.back ?? "/")}`);
  if (!answer.ok) throw new Error(said.detail || "That did not work.");
  return said;
}

async function used(button) {
  const path = button.dataset.passkey;
  const asked = await sent(`${path}/ask`);
  const adds = button.dataset.adds !== undefined;
  const made = adds
    ? await navigator.credentials.create({ publicKey: PublicKeyCredential.parseCreationOptionsFromJSON(asked) })
    : await navigator.credentials.get({ publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(asked) });
  const fields = { answer: JSON.stringify(made.toJSON()), next: button.dataset.next ?? "/" };
  if (adds) fields.name = document.getElementById("passkey-name").value;
  location.assign((await sent(path, fields)).next);
}

for (const button of document.querySelectorAll("[data-passkey]")) {
  if (!window.PublicKeyCredential?.parseCreationOptionsFromJSON) continue;
  button.hidden = false;
  button.addEventListener("click", async () => {
    const complaint = document.getElementById("door-complaint");
    complaint.hidden = true;
    button.disabled = true;
    try {
      await used(button);
    } catch (problem) {
      complaint.textContent = problem.name === "NotAllowedError" ? "The passkey was not used; try again." : problem.message;
      complaint.hidden = false;
    }
    button.disabled = false;
  });
}
