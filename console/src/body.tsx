// SPDX-License-Identifier: Apache-2.0
// The body of a message as text, JSON or bytes. What is not UTF-8, such as Avro and Protobuf, is shown as bytes.

import { useState } from "preact/hooks";
import { fromBase64, hex } from "./format";
import { SelectField } from "./parts";

type View = "json" | "text" | "hex";

const HEX_MAX = 64 * 1024;

function textOf(bytes: Uint8Array): string | null {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return null;
  }
}

/** JSON with line breaks. Numbers stay as they were written, which parsing would not keep. */
export function pretty(text: string): string | null {
  try {
    JSON.parse(text);
  } catch {
    return null;
  }
  const out: string[] = [];
  let depth = 0;
  const line = () => `\n${"  ".repeat(depth)}`;
  const tokens = text.match(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g) ?? [];
  tokens.forEach((token, at) => {
    const next = tokens[at + 1];
    if (token === "{" || token === "[") {
      if (next === "}" || next === "]") {
        out.push(token);
      } else {
        depth += 1;
        out.push(token, line());
      }
    } else if (token === "}" || token === "]") {
      const before = tokens[at - 1];
      if (before !== "{" && before !== "[") {
        depth -= 1;
        out.push(line());
      }
      out.push(token);
    } else if (token === ",") {
      out.push(token, line());
    } else {
      out.push(token === ":" ? ": " : token);
    }
  });
  return out.join("");
}

export function Body({ base64, isCut }: { base64: string; isCut: boolean }) {
  const bytes = fromBase64(base64);
  const text = textOf(bytes);
  const json = text === null ? null : pretty(text);
  const first: View = json !== null ? "json" : text !== null ? "text" : "hex";
  const [chosen, setChosen] = useState<View | null>(null);
  const view = chosen ?? first;
  const views: [string, string][] = [
    ...(json === null ? [] : [["json", "JSON"] as [string, string]]),
    ...(text === null ? [] : [["text", "text"] as [string, string]]),
    ["hex", "hex"],
  ];
  const shown = view === "json" ? json : view === "text" ? text : hex(bytes.subarray(0, HEX_MAX));
  return (
    <section aria-label="Body">
      <SelectField label="Body as" value={view} options={views} onValue={(next) => setChosen(next as View)} />
      {bytes.length === 0 ? (
        <p class="quiet">The body is empty.</p>
      ) : (
        <pre tabIndex={0} aria-label="Body of the message">
          {shown}
        </pre>
      )}
      {(isCut || (view === "hex" && bytes.length > HEX_MAX)) && <p class="quiet">Only the beginning is shown.</p>}
    </section>
  );
}
