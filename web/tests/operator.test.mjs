import { after, before, test } from "node:test";

import { inspect, openBrowser, start } from "./harness.mjs";

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

test("an operator signs in by the link, and opens every page", async () => {
  const page = await browser.page();
  await page.goto(server.operatorLink);
  await inspect(page, "operator-sign-in");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { name: "Overview" }).waitFor();
  await page.getByRole("table", { name: "Providers" }).waitFor();
  await page.getByText("No open sessions").waitFor();
  await inspect(page, "operator-overview");

  await page.getByRole("link", { name: "Accounts" }).click();
  await page.getByRole("link", { name: "default" }).click();
  await page.getByRole("table", { name: "Limits" }).waitFor();
  await inspect(page, "operator-account");

  await page.getByRole("link", { name: "Audit log" }).click();
  await page.getByRole("heading", { name: "Audit log" }).waitFor();
  await inspect(page, "operator-audit-log");

  await page.getByRole("link", { name: "Settings" }).first().click();
  await page.getByRole("table", { name: "Sessions" }).waitFor();
  await inspect(page, "operator-settings");
  await page.getByRole("main").getByRole("button", { name: "Sign out" }).click();
  await page.getByLabel("Token").waitFor();
});
