// Changes that were made elsewhere appear without a reload.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { becomeOwner, call, inspect, openBrowser, send, start } from "./harness.mjs";

const SETTINGS = `
[limits]
chats = 1
`;

let server;
let browser;
let owner;
/** Another browser of the owner. */
let other;

before(async () => {
  server = await start(SETTINGS);
  browser = await openBrowser();
  owner = await browser.page();
  await becomeOwner(owner, server);
  other = await browser.page();
  await other.context().addCookies(await owner.context().cookies());
  await other.goto(`${server.address}/console/keys`);
  await other.getByRole("heading", { name: "Keys" }).waitFor();
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

/** Opens a page and waits until it follows the account. */
async function open(page, path) {
  const live = page.waitForResponse((response) => response.url().endsWith("/console/api/v1/live"));
  await page.goto(`${server.address}/console${path}`);
  assert.equal((await live).status(), 200);
}

test("a key that was created elsewhere appears in the list", async () => {
  await open(owner, "/keys");
  const { key } = await send(other, "POST", "/keys", { name: "from elsewhere" });
  await owner.getByRole("cell", { name: "from elsewhere", exact: true }).waitFor();

  await open(owner, "/overview");
  await owner.getByText("No calls yet").first().waitFor();
  assert.equal(await call(server, key), 200);
  await owner.getByRole("link", { name: "sim/chat" }).first().waitFor();
});

test("a job that was accepted elsewhere appears in the list and ends there", async () => {
  await open(owner, "/jobs");
  await owner.getByText("No jobs yet").waitFor();
  await send(other, "POST", "/../../v1/images/generations", { model: "sim/image", prompt: "a red square" });
  await owner.getByRole("row").filter({ hasText: "sim/image" }).filter({ hasText: "Completed" }).waitFor();
});

test("the overview shows the jobs that run, and the navigation their number", async () => {
  await open(owner, "/overview");
  await owner.getByText("No jobs are running").waitFor();
  await send(other, "POST", "/../../v1/images/generations", { model: "sim/image", prompt: "A boat [[sim delay=6000]]" });
  await owner.getByRole("link", { name: "Jobs 1 running" }).waitFor();
  await owner.getByRole("progressbar").waitFor();
  await inspect(owner, "overview-jobs", { isPhone: true });
  await owner.getByText("No jobs are running").waitFor();
});

test("a chat that waits saves itself after a deletion elsewhere", async () => {
  await open(owner, "/playground?new=1");
  const ask = async (page, text) => {
    await page.locator(".compose textarea").fill(text);
    await page.keyboard.press("Control+Enter");
  };
  await ask(owner, "The first chat");
  await owner.locator(".save").filter({ hasText: "Saved" }).waitFor();
  await other.goto(`${server.address}/console/playground?new=1`);
  await ask(other, "The second chat");
  await other.locator(".save").filter({ hasText: "Not saving" }).waitFor();
  const { data } = await send(owner, "GET", "/chats");
  await send(owner, "DELETE", `/chats/${data[0].id}`);
  await other.locator(".save").filter({ hasText: "Saved" }).waitFor();
});

test("a session that was ended elsewhere leads to the sign-in", async () => {
  const third = await browser.page();
  await third.goto(`${server.address}/console/sign-in`);
  const [cookie] = (await owner.context().cookies()).filter((one) => one.name === "tollgate");
  await third.context().addCookies([cookie]);
  await open(third, "/keys");
  await owner.goto(`${server.address}/console/settings`);
  await owner.evaluate(() => fetch("/console/api/v1/sign-out", {
    method: "POST",
    headers: { "x-tollgate-account": "-", "content-type": "application/json" },
    body: "{}",
  }));
  await third.getByRole("heading", { name: /Sign in/ }).waitFor();
  assert.match(third.url(), /\/console\/sign-in/);
});
