// What a page with hostile text in it must be: a list of everything that is not so. Runs beside the page, not in it.
(card) => {
  const wrong = [];
  const token = /zq\d+qz/;
  const name = (node) => {
    const element = node.nodeType === 1 ? node : node.parentElement;
    return `${element.tagName.toLowerCase()}#${element.id}.${[...element.classList].join(".")}`;
  };
  if (window.__pwned !== undefined || window.polluted !== undefined || {}.polluted !== undefined) wrong.push("a script ran");
  for (const each of window.__csp ?? []) wrong.push(`the content policy had to stop ${each}`);

  // Only what our templates are made of.
  const tags = new Set(`html head meta title link script body a header nav b div span details summary p small form input button
    main section h1 h2 h3 ol ul li time article dl dt dd label textarea select option fieldset legend kbd i pre code footer
    aside dialog`.split(/\s+/));
  for (const each of document.querySelectorAll("*")) {
    if (!tags.has(each.localName)) wrong.push(`an element ${each.localName}`);
    for (const { name: key, value } of each.attributes) {
      if (/^on|^style$|^srcdoc$|^ping$|^target$|^http-equiv$/i.test(key)) wrong.push(`an attribute ${key} on ${name(each)}`);
      if (token.test(value) && !["value", "name", "aria-label", "data-phrase"].includes(key)
        && !(key === "href" && value.startsWith("/?"))) wrong.push(`text in ${key} of ${name(each)}`);
    }
  }
  for (const each of document.querySelectorAll("script, link")) {
    const from = each.getAttribute("src") ?? each.getAttribute("href") ?? "";
    if (!/^\/(static\/[a-z.]+|icon\.svg(\?waiting=[0-9%B+]+)?)$/.test(from) || each.textContent) wrong.push(`${each.localName} from ${from}`);
  }
  const inside = /^(\/$|\/\?|\/(r|runs)\/[0-9a-z]+(\?|$)|\/(runs|log|policy|settings|stop|you)(\/|\?|$)|#main$|#card$)/;
  for (const each of document.querySelectorAll("a[href]"))
    if (!inside.test(each.getAttribute("href"))) wrong.push(`a link to ${each.getAttribute("href").slice(0, 80)}`);
  const goal = /^(\/|\/bulk|\/logout|\/login|\/enter|\/stop|\/r\/[0-9a-z]+\/(decide|preview|edit|afterwards|similar(\/give)?)(\?[a-z]+=[\w%+-]*(&[a-z]+=[\w%+-]*)*)?)$/;
  for (const each of document.querySelectorAll("form, [formaction]")) {
    const to = each.getAttribute(each.localName === "form" ? "action" : "formaction");
    if (each.method !== "dialog" && !goal.test(to ?? "")) wrong.push(`a form to ${to}`);
  }
  const ids = [...document.querySelectorAll("[id]")].map((each) => each.id);
  if (new Set(ids).size !== ids.length) wrong.push(`an id twice: ${ids.filter((each, at) => ids.indexOf(each) !== at)}`);

  // Every hostile word stands where values stand, and nowhere else.
  const values = `h1, .facts li, .meta, .warning, .claims, .fields dt, .fields dd, .action-name, pre, .options li, .question,
    .part, .changes, #decide label, #decide .choices, #decide .stack, .if-denied, .outcome, .votes li, .why li, .declared li, .grounds, .goal, .steps li,
    .past li, .what, .who, .complaint, .mail, title, textarea, #beside h2, code`;
  const ours = "kbd, .risk, .due, nav, .brand, #news, #live, .keys, legend, .tabs, #card h2, .sheet h2, .sign, #help, .unread";
  const walk = document.createTreeWalker(document, NodeFilter.SHOW_TEXT);
  for (let node = walk.nextNode(); node; node = walk.nextNode()) {
    if (!token.test(node.data)) continue;
    const at = node.parentElement;
    if (!at.closest(values)) wrong.push(`text in ${name(node)}`);
    if (at.closest(ours)) wrong.push(`text in what is ours: ${name(node)}`);
    if (/qsaysq/.test(node.data) && !at.closest(".claims")) wrong.push(`the agent's claims in ${name(node)}`);
  }

  // Nothing hidden in any text, any attribute or any field.
  const hidden = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}\u115f\u1160\u3164\uffa0\u2800\u034f\ufe00-\ufe0f]/u;
  const check = (text, where) => {
    const bare = text.replaceAll("\n", "").replaceAll("\t", "");
    const found = hidden.exec(bare);
    if (found) wrong.push(`U+${found[0].codePointAt(0).toString(16)} in ${where}`);
  };
  check(document.documentElement.textContent, "the text");
  for (const each of document.querySelectorAll("*")) for (const { name: key, value } of each.attributes) check(value, `${key} of ${name(each)}`);
  for (const each of document.querySelectorAll("input, textarea, select")) check(each.value, `the value of ${name(each)}`);

  // The regions keep their order and their borders.
  if (card && !["main", "card", "list", "beside"].every((each) => document.getElementById(each))) wrong.push("a region is gone");
  else if (card) {
    const body = [...document.body.children].map((each) => each.localName + (each.id ? `#${each.id}` : ""));
    const wanted = ["a", "header", "p#offline", "main#main", "dialog#help", "div#toast"];
    if (body.join() !== wanted.join()) wrong.push(`the page is made of ${body}`);
    const main = [...document.getElementById("main").children].map((each) => each.id);
    if (main.join() !== "list,card,beside") wrong.push(`the desk is made of ${main}`);
    const order = ["header", "outcome", "why", "part", "question", "options", "args", "changed", "declared", "claims", "votes", "decide", "quiet"];
    const many = ["part", "changed"];
    let last = -1;
    for (const each of document.getElementById("card").children) {
      const kind = each.localName === "header" ? "header" : each.classList[0];
      const at = order.indexOf(kind);
      if (at < last || at < 0 || (at === last && !many.includes(kind))) wrong.push(`${kind} out of its place`);
      last = at;
    }
    for (const each of ["approve", "modify", "revise", "deny"])
      if (document.querySelectorAll(`form input[name="word"][value="${each}"]`).length > 1) wrong.push(`${each} twice`);
  }
  for (const each of ["list", "card", "beside"]) {
    const region = document.getElementById(each);
    if (region && region.clientWidth && region.scrollWidth > region.clientWidth + 1) wrong.push(`${each} is wider than its box: ${region.scrollWidth}`);
  }
  if (document.documentElement.scrollWidth > innerWidth + 1) wrong.push("the page is wider than the window");
  return [...new Set(wrong)];
}
