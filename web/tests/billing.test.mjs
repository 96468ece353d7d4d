import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { becomeOwner, inspect, openBrowser, send, start } from "./harness.mjs";

let server;
let browser;
let owner;
before(async () => {
  server = await start();
  browser = await openBrowser();
  owner = await browser.page();
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

test("billing shows the balance, the plan, lots and statements", async () => {
  await becomeOwner(owner, server);
  await owner.getByRole("link", { name: "Billing" }).click();
  // The first start grants 10 credits.
  await owner.getByRole("region", { name: "Balance" }).getByText("10.00").first().waitFor();
  await owner.getByRole("heading", { name: "No plan" }).waitFor();
  const lots = owner.getByRole("table", { name: "Credit lots" });
  await lots.getByRole("cell", { name: "10.00" }).first().waitFor();
  await inspect(owner, "billing", { isPhone: true });

  const row = owner.getByRole("table", { name: "Statements" }).getByRole("row", { name: /so far/ });
  await row.getByRole("button", { name: /so far/ }).click();
  const dialog = owner.getByRole("dialog", { name: /^Statement of/ });
  const month = new Date().toISOString().slice(0, 7);
  const statement = await send(owner, "GET", `/statements/${month}`);
  await dialog.getByRole("row", { name: /^Balance now/ }).waitFor();
  await inspect(owner, "billing-statement", { isPhone: true });
  const [download] = await Promise.all([
    owner.waitForEvent("download"),
    dialog.getByRole("button", { name: "CSV" }).click(),
  ]);
  assert.equal(download.suggestedFilename(), `statement-${month}.csv`);
  const chunks = [];
  for await (const chunk of await download.createReadStream()) chunks.push(chunk);
  const text = Buffer.concat(chunks).toString("utf8");
  assert.ok(text.includes(`closing balance,,,,${statement.closing},`), text);
});
