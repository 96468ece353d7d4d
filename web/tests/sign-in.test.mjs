import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { becomeOwner, choosePersonItem, inspect, openBrowser, PASSWORD, start } from "./harness.mjs";

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

test("a link works once, and leaves no token behind", async () => {
  const page = await browser.page();
  await page.goto(server.consoleLink);
  await page.getByText("This link signs you in once").waitFor();
  assert.equal(new URL(page.url()).hash, "");
  await inspect(page, "sign-in-link");
  await becomeOwner(page, server);
  const token = new URL(server.consoleLink).hash.slice(1);
  const stored = await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie]));
  assert.ok(!stored.includes(token));

  const second = await browser.page();
  await second.goto(server.consoleLink);
  await second.getByRole("button", { name: "Sign in" }).click();
  await second.getByText("This link no longer works").waitFor();
  await inspect(second, "sign-in-used-link");
});

test("a person signs out, and in again with the password", async () => {
  const page = await browser.page();
  await page.goto(`${server.address}/console/people`);
  await page.getByLabel("E-mail").fill("jo@example.com");
  await page.getByLabel("Password", { exact: true }).fill("not the right password");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByText("E-mail or password is wrong").waitFor();
  await inspect(page, "sign-in-wrong-password");

  await page.getByLabel("Password", { exact: true }).fill(PASSWORD);
  await page.keyboard.press("Enter");
  // The page that was requested before the sign-in.
  await page.getByRole("heading", { name: "People" }).waitFor();
  await choosePersonItem(page, "Sign out");
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
});

test("return addresses stay on this server", async () => {
  const page = await browser.page();
  await page.goto(`${server.address}/console/sign-in?next=${encodeURIComponent("//example.com/console/people")}`);
  await page.getByLabel("E-mail").fill("jo@example.com");
  await page.getByLabel("Password", { exact: true }).fill(PASSWORD);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { name: "Overview" }).waitFor();
  assert.equal(new URL(page.url()).origin, server.address);
});
