import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { accept, becomeOwner, call, inspect, openBrowser, PASSWORD, send, start } from "./harness.mjs";

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

test("an owner invites a person, changes the role and removes the person", async () => {
  const owner = await browser.page();
  await becomeOwner(owner, server);
  await owner.getByRole("link", { name: "People" }).click();
  await owner.getByRole("button", { name: "Invite" }).click();
  const dialog = owner.getByRole("dialog");
  await dialog.getByLabel("E-mail").fill("ana@example.com");
  await dialog.getByLabel("Viewer").check();
  await inspect(owner, "people-invite");
  await dialog.getByRole("button", { name: "Create link" }).click();
  await owner.getByRole("heading", { name: "Invitation for ana@example.com" }).waitFor();
  const link = await dialog.locator("code").textContent();
  await dialog.getByRole("button", { name: "Done" }).click();

  const guest = await browser.page();
  await accept(guest, link, "Ana Ruiz", `${PASSWORD} 2`);
  await guest.getByRole("link", { name: "People" }).click();
  await guest.getByText("Jo Okafor").first().waitFor();
  // A viewer changes nothing.
  if (await guest.getByRole("button", { name: "Invite" }).isVisible()) throw new Error("a viewer sees Invite");

  await owner.reload();
  await owner.getByRole("button", { name: "Actions for Ana Ruiz" }).click();
  await owner.getByRole("menuitem", { name: "Change role" }).click();
  await owner.getByLabel("Member").check();
  await owner.getByRole("button", { name: "Change role" }).click();
  await owner.getByText("Ana Ruiz is now a member").waitFor();
  await inspect(owner, "people");

  const { key } = await send(guest, "POST", "/keys", { name: "nightly", mode: "test" });
  await owner.getByRole("button", { name: "Actions for Ana Ruiz" }).click();
  await owner.getByRole("menuitem", { name: "Remove" }).click();
  const question = owner.getByRole("dialog", { name: "Remove Ana Ruiz?" });
  await question.getByText("Calls with nightly fail immediately.").waitFor();
  assert.ok(await question.getByLabel("Revoke the keys this member created").isChecked());
  await inspect(owner, "people-remove", { isPhone: true });
  await question.getByLabel("Let them work").check();
  await question.getByRole("button", { name: "Remove" }).click();
  await owner.getByText("Ana Ruiz was removed").waitFor();
  assert.equal(await call(server, key), 200);
  await guest.reload();
  await guest.getByText("Jo Okafor").waitFor({ state: "detached" });
});

test("the last owner stays", async () => {
  const page = await browser.page();
  await page.goto(`${server.address}/console/people`);
  await page.getByLabel("E-mail").fill("jo@example.com");
  await page.getByLabel("Password", { exact: true }).fill(PASSWORD);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("button", { name: "Actions for Jo Okafor" }).click();
  await page.getByRole("menuitem", { name: "Remove" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Remove" }).click();
  await page.getByRole("dialog").getByRole("alert").waitFor();
  await inspect(page, "people-last-owner");
});
