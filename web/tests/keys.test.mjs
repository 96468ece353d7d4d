import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { accept, becomeOwner, call, inspect, openBrowser, PASSWORD, send, start } from "./harness.mjs";

// The first start creates the key "first", so one more reaches the limit.
const SETTINGS = `
[service]
support = "support@example.com"
[limits]
keys = 2
`;

let server;
let browser;
let owner;
before(async () => {
  server = await start(SETTINGS);
  browser = await openBrowser();
  owner = await browser.page({ permissions: ["clipboard-read", "clipboard-write"] });
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

/** Opens the menu of a key, and chooses an item. */
async function choose(page, key, item) {
  await page.getByRole("button", { name: `Actions for ${key}` }).click();
  await page.getByRole("menuitem", { name: item }).click();
}

/** Asserts that no part of the page has a key: document, storage, history and requested addresses. */
async function assertForgotten(page, key) {
  const found = await page.evaluate(() =>
    JSON.stringify([
      document.documentElement.outerHTML,
      [...document.querySelectorAll("input")].map((input) => input.value),
      { ...localStorage },
      { ...sessionStorage },
      document.cookie,
      history.state,
      location.href,
      performance.getEntries().map((entry) => entry.name),
    ]),
  );
  assert.ok(!found.includes(key), "the page still has the key");
}

let first;

test("a key is created by keyboard alone, and shown once", async () => {
  await becomeOwner(owner, server);
  await inspect(owner, "overview-first-call", { isPhone: true });
  const { keyboard } = owner;
  await keyboard.press("Control+k");
  await keyboard.type("create key");
  await keyboard.press("Enter");
  const form = owner.getByRole("dialog", { name: "Create a key" });
  await form.waitFor();
  await keyboard.press("Enter");
  await form.getByText("Enter a name").waitFor();
  await inspect(owner, "keys-create", { isPhone: true });
  await keyboard.type("production");
  await keyboard.press("Tab");
  await keyboard.press("ArrowRight");
  assert.ok(await form.getByLabel("30 days").isChecked());
  // Over the mode, the models and the endpoints.
  for (let count = 0; count < 4; count += 1) await keyboard.press("Tab");
  await keyboard.press("Space");
  await form.getByText("Compatibility").waitFor();
  await keyboard.press("Tab");
  await keyboard.press("ArrowDown");
  assert.ok(await form.getByLabel("Lenient").isChecked());
  await keyboard.press("Enter");

  const shown = owner.getByRole("dialog", { name: "Key “production” is ready" });
  await shown.waitFor();
  first = await shown.locator(".secret code").textContent();
  assert.match(first, /^sk-service-[0-9A-Za-z]{46}$/);
  await keyboard.press("Enter");
  await shown.getByText("Copied").first().waitFor();
  assert.equal(await owner.evaluate(() => navigator.clipboard.readText()), first);
  for (const language of ["curl", "Python", "JavaScript"]) {
    await shown.getByRole("button", { name: language }).click();
    const snippet = await shown.locator("pre").textContent();
    assert.ok(snippet.includes(`${server.address}/v1`) && snippet.includes(first), snippet);
  }
  await inspect(owner, "keys-new", { isPhone: true });

  // Neither a click outside nor one Esc closes the dialog.
  await owner.mouse.click(4, 4);
  await keyboard.press("Escape");
  await shown.getByText("Press Esc again to close.").waitFor();
  await keyboard.press("Escape");
  await shown.waitFor({ state: "detached" });
  await assertForgotten(owner, first);
});

test("a call with the key appears in the list and in the overview", async () => {
  await owner.getByText("2 of 2 keys").waitFor();
  assert.equal(await call(server, first), 200);
  const row = owner.getByRole("row", { name: /^production/ });
  await row.getByRole("cell", { name: "Never" }).waitFor();
  await owner.reload();
  await row.getByRole("cell", { name: "now", exact: true }).waitFor();
  await inspect(owner, "keys", { isPhone: true });
  await owner.getByRole("link", { name: "Overview" }).click();
  const calls = owner.getByRole("table", { name: "Latest calls" });
  await calls.getByRole("cell", { name: "sim/chat" }).waitFor();
  await inspect(owner, "overview", { isPhone: true });
});

test("the name and settings of a key change", async () => {
  await owner.getByRole("link", { name: "Keys" }).click();
  await owner.getByRole("button", { name: "production", exact: true }).click();
  const sheet = owner.getByRole("dialog", { name: "production" });
  await sheet.getByText("Jo Okafor").waitFor();
  assert.ok(await sheet.getByLabel("Lenient").isChecked());
  await inspect(owner, "keys-details", { isPhone: true });
  await sheet.getByLabel("Name").fill("web");
  await sheet.getByLabel("Standard").check();
  await sheet.getByRole("button", { name: "Save" }).click();
  await owner.getByText("Key “web” saved").waitFor();
  const { data } = await send(owner, "GET", "/keys");
  const changed = data.find((key) => key.name === "web");
  assert.equal(changed.compat, "standard");
});

test("a key is limited to models and endpoints", async () => {
  await owner.getByRole("button", { name: "web", exact: true }).click();
  const sheet = owner.getByRole("dialog", { name: "web" });
  await sheet.getByRole("group", { name: "Models" }).getByLabel("Only these").check();
  await sheet.getByRole("button", { name: "Save" }).click();
  await sheet.getByText("Add a model, or choose all models.").waitFor();
  await sheet.getByLabel("Model or pattern").fill("sim");
  await sheet.getByRole("button", { name: "Add" }).click();
  await sheet.getByText("Enter a model id such as acme/large").waitFor();
  await sheet.getByLabel("Model or pattern").fill("sim/*");
  await owner.keyboard.press("Enter");
  await sheet.getByRole("group", { name: "Endpoints", exact: true }).getByLabel("Only these").check();
  await sheet.getByLabel("Embeddings").check();
  await inspect(owner, "keys-rights", { isPhone: true });
  await sheet.getByRole("button", { name: "Save" }).click();
  await owner.getByRole("row", { name: /web.*sim\/\*.*Embeddings/ }).waitFor();
  const { data } = await send(owner, "GET", "/keys");
  const changed = data.find((key) => key.name === "web");
  assert.deepEqual([changed.models, changed.scopes], [["sim/*"], ["embeddings"]]);
  assert.equal(await call(server, first), 403);
  await send(owner, "PATCH", `/keys/${changed.id}`, { models: null, scopes: null });
  await owner.reload();
  await owner.getByRole("row", { name: /web.*All models.*All endpoints/ }).waitFor();
});

test("the dialog explains the limit of keys", async () => {
  const { id } = await send(owner, "GET", "/account");
  await owner.getByRole("button", { name: "Create key" }).click();
  const dialog = owner.getByRole("dialog", { name: "Key limit reached" });
  await dialog.getByText("This account can have 2 keys.").waitFor();
  await dialog.getByRole("link", { name: "support@example.com" }).waitFor();
  await dialog.locator("dd").getByText(id).waitFor();
  assert.match(await dialog.locator("pre").textContent(), new RegExp(`${id}[^]*Limit wanted[^]*Reason`));
  await inspect(owner, "keys-limit", { isPhone: true });
  await dialog.getByRole("button", { name: "Close" }).click();
});

test("a rotated key works beside the new one until it is revoked", async () => {
  await choose(owner, "web", "Rotate");
  const dialog = owner.getByRole("dialog", { name: "Rotate “web”" });
  await dialog.getByLabel("7 days").check();
  await inspect(owner, "keys-rotate", { isPhone: true });
  await dialog.getByRole("button", { name: "Rotate key" }).click();
  const shown = owner.getByRole("dialog", { name: "Key “web” is ready" });
  const second = await shown.locator(".secret code").textContent();
  assert.notEqual(second, first);
  await shown.getByRole("button", { name: "I have stored it" }).click();
  await assertForgotten(owner, second);
  assert.deepEqual([await call(server, first), await call(server, second)], [200, 200]);

  const old = owner.getByRole("row", { name: /Replaced, works until/ });
  await old.getByRole("button", { name: "Actions for web" }).click();
  assert.equal(await owner.getByRole("menuitem", { name: "Rotate" }).count(), 0);
  await owner.getByRole("menuitem", { name: "Revoke" }).click();
  const question = owner.getByRole("dialog", { name: "Revoke “web”?" });
  await question.getByText(`sk-…${first.slice(-4)}`).waitFor();
  await inspect(owner, "keys-revoke", { isPhone: true });
  await question.getByRole("button", { name: "Revoke key" }).click();
  await old.waitFor({ state: "detached" });
  assert.deepEqual([await call(server, first), await call(server, second)], [401, 200]);

  await choose(owner, "web", "Revoke");
  await owner.getByRole("button", { name: "Revoke key" }).click();
  await owner.getByText("1 of 2 keys").waitFor();
  assert.equal(await call(server, second), 401);
  await owner.getByRole("button", { name: "All", exact: true }).click();
  await owner.getByRole("row", { name: /web.*Revoked/ }).first().waitFor();
});

test("the server refuses a key over the limit", async () => {
  await owner.getByRole("button", { name: "Create key" }).click();
  const form = owner.getByRole("dialog", { name: "Create a key" });
  await form.getByLabel("Name").fill("one too many");
  await send(owner, "POST", "/keys", { name: "created elsewhere" });
  await form.getByRole("button", { name: "Create key" }).click();
  await owner.getByRole("dialog", { name: "Key limit reached" }).getByRole("button", { name: "Close" }).click();
});

test("members change their own keys, and viewers none", async () => {
  const { data } = await send(owner, "GET", "/keys");
  const elsewhere = data.find((key) => key.name === "created elsewhere");
  await send(owner, "DELETE", `/keys/${elsewhere.id}`);
  const invitation = await send(owner, "POST", "/invitations", { email: "ana@example.com", role: "member" });
  const ana = await browser.page();
  await accept(ana, invitation.url, "Ana Ruiz", `${PASSWORD} 2`);
  await ana.getByRole("link", { name: "Keys" }).click();
  await ana.getByRole("button", { name: "Create key" }).click();
  await ana.getByRole("dialog").getByLabel("Name").fill("of Ana");
  await ana.getByRole("dialog").getByLabel("Test").check();
  await ana.getByRole("dialog").getByRole("button", { name: "Create key" }).click();
  await ana.getByRole("button", { name: "I have stored it" }).click();
  await ana.getByRole("button", { name: "Actions for of Ana" }).waitFor();
  assert.equal(await ana.getByRole("button", { name: "Actions for first" }).count(), 0);

  await send(owner, "PATCH", `/members/${invitation.member.id}`, { role: "viewer" });
  await ana.reload();
  await ana.getByRole("button", { name: "of Ana", exact: true }).click();
  await ana.getByRole("dialog", { name: "of Ana" }).getByRole("button", { name: "Close" }).click();
  assert.equal(await ana.getByRole("button", { name: /Create key|Actions for/ }).count(), 0);
});
