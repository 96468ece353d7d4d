import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { accept, becomeOwner, inspect, openBrowser, PASSWORD, send, start } from "./harness.mjs";

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

test("the signing secret is shown and rotated", async () => {
  await page.getByRole("link", { name: "Webhooks" }).click();
  await page.getByText("No deliveries yet").waitFor();
  await inspect(page, "webhooks", { isPhone: true });
  await page.getByRole("button", { name: "Show the secret" }).click();
  const secret = page.locator(".signing code");
  await secret.filter({ hasText: /^whsec_[\w+/]/ }).waitFor();
  const first = await secret.textContent();
  await page.getByRole("button", { name: "Rotate" }).click();
  const dialog = page.getByRole("dialog", { name: "Rotate the signing secret?" });
  await inspect(page, "webhooks-rotate", { isPhone: true });
  await dialog.getByRole("button", { name: "Rotate secret" }).click();
  await page.getByText("Secret rotated").waitFor();
  assert.notEqual(await secret.textContent(), first);
  await page.getByRole("button", { name: "Hide" }).click();
  assert.ok(!(await page.content()).includes(first.slice(6)));
});

test("the audit log shows the changes of the account", async () => {
  await send(page, "POST", "/keys", { name: "production" });
  await page.getByRole("link", { name: "Audit" }).click();
  const entry = page.getByRole("button", { name: /key/ }).first();
  await entry.click();
  await page.getByText("After", { exact: true }).waitFor();
  await inspect(page, "audit", { isPhone: true });
});

test("members see neither webhooks nor the audit log", async () => {
  const { url } = await send(page, "POST", "/invitations", { email: "mem@example.com", role: "member" });
  const member = await browser.page();
  await accept(member, url, "Mem Ber", PASSWORD);
  assert.equal(await member.getByRole("link", { name: "Webhooks" }).count(), 0);
  await member.goto(`${server.address}/console/webhooks`);
  await member.getByText("Your role does not include webhooks").waitFor();
  await member.goto(`${server.address}/console/audit`);
  await member.getByText("Your role does not include the audit log").waitFor();
});
