import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, before, test } from "node:test";

import { accept, becomeOwner, inspect, openBrowser, PASSWORD, send, start } from "./harness.mjs";

let server;
let browser;
let page;
/** Receiver of webhooks: refuses the first event for good, and accepts later ones. */
let receiver;
const received = [];
before(async () => {
  receiver = createServer((request, response) => {
    received.push(request.headers["webhook-id"]);
    response.writeHead(received.length === 1 ? 410 : 204).end();
  });
  await new Promise((done) => receiver.listen(0, "127.0.0.1", done));
  server = await start(`[egress]\nallow = ["127.0.0.1:${receiver.address().port}"]\n`);
  browser = await openBrowser();
  page = await browser.page();
  await becomeOwner(page, server);
});
after(async () => {
  await browser?.close();
  await server?.stop();
  receiver?.close();
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

test("a failed delivery is sent again", async () => {
  const webhook_url = `http://127.0.0.1:${receiver.address().port}/hook?token=s3cret`;
  await send(page, "POST", "/../../v1/images/generations", { model: "sim/image", prompt: "a red square", webhook_url });
  const row = page.getByRole("button", { name: "Images completed" });
  await row.waitFor();
  await page.getByText("Failed", { exact: true }).waitFor();
  await row.click();
  await page.getByText("410").waitFor();
  await inspect(page, "webhooks-delivery", { isPhone: true });
  assert.ok(!(await page.content()).includes("s3cret"));
  await page.getByRole("button", { name: "Send again" }).click();
  await page.getByText("Delivered", { exact: true }).first().waitFor();
  assert.equal(received.length, 2);
  assert.equal(received[0], received[1]);
});

test("the audit log shows the changes of the account", async () => {
  await send(page, "POST", "/keys", { name: "production" });
  await page.getByRole("link", { name: "Audit log" }).click();
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
