import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { becomeOwner, inspect, openBrowser, start } from "./harness.mjs";

let server;
let browser;
let page;
before(async () => {
  server = await start();
  browser = await openBrowser();
  page = await browser.page({ permissions: ["clipboard-read", "clipboard-write"] });
  await becomeOwner(page, server);
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

const rows = () => page.getByRole("table", { name: "Models" }).getByRole("row");

test("the catalogue is filtered, sorted and searched", async () => {
  await page.getByRole("link", { name: "Models" }).click();
  await page.getByRole("link", { name: "sim/chat", exact: true }).waitFor();
  await inspect(page, "models", { isPhone: true });
  const all = await rows().count();
  await page.getByRole("checkbox", { name: /^Decisions/ }).check();
  await page.getByRole("link", { name: "sim/chat", exact: true }).waitFor({ state: "detached" });
  assert.ok((await rows().count()) < all);
  await page.reload();
  await page.getByRole("button", { name: "Remove the filter Decisions" }).click();
  await page.getByRole("link", { name: "sim/chat", exact: true }).waitFor();
  assert.equal(await rows().count(), all);

  await page.getByRole("button", { name: /^Sort/ }).click();
  await page.getByRole("menuitemradio", { name: "Lowest input price" }).click();
  assert.match(await rows().nth(1).textContent(), /sim\/.*0\.02/);
  await page.getByRole("searchbox").fill("embed");
  await page.getByText("1 model", { exact: true }).waitFor();
  await page.getByRole("searchbox").fill("nothing like this");
  await page.getByText("No model matches the filters").waitFor();
  await inspect(page, "models-none", { isPhone: true });
  await page.getByRole("button", { name: "Show all models" }).click();
});

test("models are compared side by side", async () => {
  await page.getByLabel("Compare sim/chat").check();
  await page.getByLabel("Compare sim/embeddings").check();
  const comparison = page.getByRole("region", { name: "Comparison" });
  await comparison.getByRole("heading", { name: "Compare 2 models" }).waitFor();
  const input = comparison.locator(".cg > div").filter({ hasText: /^Input/ });
  assert.match(await input.locator(".strong").textContent(), /embeddings: 0\.02, better/);
  await inspect(page, "models-compare", { isPhone: true });
  for (const model of ["sim/image", "sim/speech"]) await page.getByLabel(`Compare ${model}`).check();
  assert.ok(await page.getByLabel("Compare sim/video").isDisabled());
  await comparison.getByRole("button", { name: "Clear" }).click();
  await page.getByLabel("Compare sim/chat").check();
  assert.match(await comparison.getByRole("link", { name: "Try" }).getAttribute("href"), /playground\?model=sim%2Fchat$/);
  await comparison.getByRole("button", { name: "Clear" }).click();
});

test("the details show prices and limits, and the id is copied", async () => {
  await page.getByRole("link", { name: "sim/image", exact: true }).focus();
  await page.keyboard.press("Enter");
  const sheet = page.getByRole("dialog");
  await sheet.getByText("1:1, 16:9", { exact: false }).waitFor();
  await sheet.getByRole("button", { name: "Copy the model id" }).click();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), "sim/image");
  await inspect(page, "models-details", { isPhone: true });
  assert.match(await sheet.getByRole("link", { name: "Try" }).getAttribute("href"), /playground\?model=sim%2Fimage$/);
  await page.keyboard.press("Escape");
  await sheet.waitFor({ state: "detached" });
});
