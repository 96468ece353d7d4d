import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { becomeOwner, inspect, openBrowser, start } from "./harness.mjs";

let server;
let browser;
let page;
before(async () => {
  server = await start();
  browser = await openBrowser();
  page = await browser.page();
  await becomeOwner(page, server);
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

test("templates have previews, filters and details", async () => {
  await page.getByRole("link", { name: "Templates" }).click();
  const gallery = page.getByRole("list", { name: "Templates" });
  await gallery.getByRole("link", { name: "App mockup" }).waitFor();
  await page.waitForFunction(() => document.querySelector(".tile img")?.naturalWidth > 0);
  await inspect(page, "templates", { isPhone: true });
  await page.getByRole("button", { name: "Videos" }).click();
  await gallery.getByRole("link", { name: "App mockup" }).waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Images" }).click();
  await page.getByRole("button", { name: "Category" }).click();
  await page.getByRole("menuitemradio", { name: "Marketing" }).click();
  await gallery.getByRole("link", { name: "App mockup" }).click();
  const sheet = page.getByRole("dialog", { name: "App mockup" });
  await sheet.getByText("{prompt}", { exact: false }).waitFor();
  await inspect(page, "templates-details", { isPhone: true });
  const address = await sheet.getByRole("link", { name: "Try" }).getAttribute("href");
  assert.match(address, /playground\?template=app-screenshot-mockup&model=sim%2Fimage$/);
  await page.keyboard.press("Escape");
});

test("recipes of compositions have details", async () => {
  await page.getByRole("button", { name: "Compositions" }).click();
  await page.getByRole("list", { name: "Recipes" }).getByRole("link", { name: "Explainer" }).click();
  const sheet = page.getByRole("dialog", { name: "Explainer" });
  await sheet.getByText("5 scenes").waitFor();
  await inspect(page, "templates-recipe", { isPhone: true });
});
