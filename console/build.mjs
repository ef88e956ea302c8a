// SPDX-License-Identifier: Apache-2.0
// Bundles the pages into the files that the server contains. With --check, it only tells whether they are current.

import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gunzipSync, gzipSync } from "node:zlib";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const target = join(here, "../rust/oxbus-server/src/console/assets");
const LARGEST = 300 * 1024;

const bundled = await build({
  entryPoints: { console: join(here, "src/main.tsx") },
  absWorkingDir: here,
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "inline",
  outdir: "out",
  write: false,
});
const output = (suffix) => bundled.outputFiles.find((file) => file.path.endsWith(suffix)).text;
const hash = (text) => createHash("sha256").update(text).digest("hex").slice(0, 16);
const script = output(".js");
const style = output(".css");
const names = [`console-${hash(script)}.js`, `console-${hash(style)}.css`];
const page = readFileSync(join(here, "src/index.html"), "utf8")
  .replace("console.js", names[0])
  .replace("console.css", names[1]);
const lines = `${names.join("\n")}\n"${hash(page)}"\n`;

// Other versions of zlib compress to other bytes, so what is compared is the content.
const files = { "index.html.gz": page, "console.js.gz": script, "console.css.gz": style };
const isCheck = process.argv.includes("--check");
let size = 0;
let stale = false;
mkdirSync(target, { recursive: true });
for (const [name, text] of Object.entries(files)) {
  const path = join(target, name);
  if (isCheck) {
    const found = readFileSync(path);
    stale ||= gunzipSync(found).toString() !== text;
    size += found.length;
  } else {
    const packed = gzipSync(text, { level: 9 });
    writeFileSync(path, packed);
    size += packed.length;
  }
}
if (isCheck) {
  stale ||= readFileSync(join(target, "names.txt"), "utf8") !== lines;
} else {
  writeFileSync(join(target, "names.txt"), lines);
}
console.log(`The console is ${size} bytes, compressed.`);
if (stale) {
  console.error("The built console is not what its sources build: run `make console-assets` and commit the result.");
  process.exit(1);
}
if (size > LARGEST) {
  console.error(`The built console is larger than ${LARGEST} bytes.`);
  process.exit(1);
}
