import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { becomeOwner, inspect, openBrowser, PASSWORD, start } from "./harness.mjs";

let server;
let browser;
before(async () => {
  server = await start();
  browser = await openBrowser();
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

test("a person changes profile, account, password and theme, and ends other sessions", async () => {
  const page = await browser.page();
  await becomeOwner(page, server);
  const other = await browser.page();
  await other.goto(`${server.address}/console/settings`);
  await other.getByLabel("E-mail").fill("jo@example.com");
  await other.getByLabel("Password", { exact: true }).fill(PASSWORD);
  await other.getByRole("button", { name: "Sign in" }).click();
  await other.getByRole("heading", { name: "Settings" }).waitFor();

  await page.getByRole("link", { name: "Settings" }).click();
  await page.getByRole("button", { name: "End all other sessions" }).waitFor();
  await inspect(page, "settings");
  await page.getByRole("textbox", { name: "Name", exact: true }).fill("Jo A. Okafor");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("Profile saved").waitFor();
  await page.getByLabel("Account name").fill("Acme");
  await page.getByRole("button", { name: "Rename" }).click();
  await page.getByText("Account renamed").waitFor();

  await page.getByLabel("New password").fill(`${PASSWORD} new`);
  await page.getByRole("button", { name: "Change password" }).click();
  await page.getByText("Password changed").waitFor();
  await other.reload();
  await other.getByRole("heading", { name: "Sign in" }).waitFor();

  await page.getByRole("group", { name: "Theme" }).getByRole("button", { name: "Dark" }).click();
  await page.reload();
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "dark");
});
