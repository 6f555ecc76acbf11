// Brings the provider's answer to the server; without this the button does.
document.getElementById("sso-return")?.requestSubmit();
