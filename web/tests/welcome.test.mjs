import { after, before, test } from "node:test";

import { inspect, openBrowser, PASSWORD, start } from "./harness.mjs";

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

test("the first person sets e-mail, name and password before anything else", async () => {
  const page = await browser.page();
  await page.goto(server.consoleLink);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { name: "Welcome" }).waitFor();
  await page.getByRole("button", { name: "Continue" }).click();
  await page.getByText("Enter your name.").waitFor();
  await page.getByText("Use at least 12 characters.").waitFor();
  await inspect(page, "welcome");

  // No other page opens instead.
  await page.goto(`${server.address}/console/people`);
  await page.getByRole("heading", { name: "Welcome" }).waitFor();

  await page.getByLabel("E-mail").fill("jo@example.com");
  await page.getByLabel("Name").fill("Jo Okafor");
  await page.getByLabel("Password", { exact: true }).fill("password1234");
  await page.getByRole("button", { name: "Continue" }).click();
  await page.getByLabel("Password", { exact: true }).and(page.locator("[aria-invalid]")).waitFor();
  await page.getByLabel("Password", { exact: true }).fill(PASSWORD);
  await page.getByRole("button", { name: "Continue" }).click();
  await page.getByRole("heading", { name: "People" }).waitFor();
});
