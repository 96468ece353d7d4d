import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const STYLES = fileURLToPath(new URL("../styles/", import.meta.url));

/** Returns the compounds of classes that begin the selectors of a style sheet, such as `.chip.on`. */
function beginnings(text) {
  const found = new Set();
  for (const [, selectors] of text.replace(/\/\*[^]*?\*\//g, "").matchAll(/([^{};]+)\{/g)) {
    for (const selector of selectors.split(",")) {
      const start = /^(\.[\w-]+)+/.exec(selector.trim());
      if (start) found.add(start[0]);
    }
  }
  return found;
}

test("the styles of one group of screens do not change another one", async () => {
  const names = (await readdir(STYLES)).filter((name) => name.startsWith("5-"));
  assert.ok(names.length > 3);
  const owners = new Map();
  for (const name of names) {
    for (const start of beginnings(await readFile(STYLES + name, "utf8"))) {
      const owner = owners.get(start);
      assert.ok(!owner, `${start} begins selectors of ${owner} and ${name}. Move it to 4-parts.css, or rename it.`);
      owners.set(start, name);
    }
  }
});
