import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { becomeOwner, call, openBrowser, send, start } from "./harness.mjs";

// The server is killed in the middle of requests, and started again on the same data.

let server;
let browser;
let page;
before(async () => {
  browser = await openBrowser();
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

/** Waits, then kills the server. */
async function killAfter(ms) {
  await new Promise((done) => setTimeout(done, ms));
  await server.kill();
}

const SIGN_IN = { "x-tollgate-account": "-", "content-type": "application/json" };

/** Redeems a link from a page. Returns the status, or 0 if no response arrived. */
function redeem(guest, token) {
  return guest.evaluate(
    async ([headers, body]) => {
      const response = await fetch("/console/api/v1/sign-in/link", { method: "POST", headers, body }).catch(() => null);
      await response?.arrayBuffer().catch(() => null);
      return response?.status ?? 0;
    },
    [SIGN_IN, JSON.stringify({ token })],
  );
}

/** Redeems a link from another client. Returns the status. */
async function redeemElsewhere(token) {
  const headers = { ...SIGN_IN, origin: server.address };
  const init = { method: "POST", headers, body: JSON.stringify({ token }) };
  const response = await fetch(`${server.address}/console/api/v1/sign-in/link`, init);
  await response.arrayBuffer();
  return response.status;
}

async function isSignedIn(guest) {
  const reply = await guest.evaluate(async () =>
    (await fetch("/console/api/v1/session", { headers: { "x-tollgate-account": "-" } })).json(),
  );
  return reply.session !== null;
}

test("a link that is redeemed while the server dies works once at most", async () => {
  server = await start();
  page = await browser.page();
  await becomeOwner(page, server);
  for (const delay of [0, 2, 5, 12, 25]) {
    const { url } = await send(page, "POST", "/invitations", { email: `p${delay}@example.com`, role: "member" });
    const token = new URL(url).hash.slice(1);
    const guest = await browser.page();
    await guest.goto(`${server.address}/console/sign-in`);
    const [status] = await Promise.all([redeem(guest, token), killAfter(delay)]);
    await server.restart();
    const hasSession = await isSignedIn(guest);
    const again = await redeemElsewhere(token);
    const where = JSON.stringify({ delay, status, hasSession, again });
    assert.ok(status === 0 || status === 200, where);
    assert.equal(hasSession, status === 200, where);
    // Without a response, the link was used or still works.
    assert.ok(again === 410 || (status === 0 && again === 200), where);
    assert.equal(await redeemElsewhere(token), 410, where);
    await guest.context().close();
  }
  assert.ok(await isSignedIn(page), "the session of the owner has survived");
});

test("a chat that is saved while the server dies has the old or the new revision", async () => {
  const id = `chat_0199f00000007000${"8"}${"0".repeat(15)}`;
  const turn = (index) => ({
    input: { content: `Message ${index} ${"x".repeat(20_000)}` },
    answers: [{ model: "sim/chat", content: "Yes", status: "completed" }],
  });
  const body = (revision) => ({ base_revision: revision, from: revision, turns: [turn(revision)], kind: "chat", title: "Long", settings: {} });
  let revision = (await send(page, "PUT", `/chats/${id}`, body(0))).revision;
  for (const delay of [0, 3, 8, 20]) {
    const next = body(revision);
    const save = () => send(page, "PUT", `/chats/${id}`, next).then((saved) => saved.revision, () => null);
    const [saved] = await Promise.all([save(), killAfter(delay)]);
    await server.restart();
    const found = await send(page, "GET", `/chats/${id}`);
    assert.ok([revision, revision + 1].includes(found.revision), `revision ${found.revision} after ${revision}`);
    if (saved !== null) assert.equal(found.revision, saved, "an answered save has survived");
    assert.equal(found.content.length, found.revision, "revision and turns belong together");
    // The page repeats the same save until it is answered.
    assert.equal(await save(), revision + 1);
    assert.equal(await save(), revision + 1);
    const whole = await send(page, "GET", `/chats/${id}`);
    assert.deepEqual(whole.content.at(-1).input, next.turns[0].input);
    assert.equal(whole.content.length, revision + 1);
    revision += 1;
  }
});

test("a page saves its chat by itself when the server is back", async () => {
  await page.goto(`${server.address}/console/playground?new=1`);
  await page.locator(".compose textarea").fill("Say hello.");
  await page.keyboard.press("Control+Enter");
  await page.getByText("Done", { exact: true }).waitFor();
  // The answer has ended, and the pause before the save runs.
  await server.kill();
  await page.locator(".save.ing").waitFor();
  await page.waitForTimeout(1000);
  await server.restart();
  await page.locator(".save.ok").waitFor({ timeout: 40_000 });
  const { data } = await send(page, "GET", "/chats");
  assert.equal(data.find((chat) => chat.title === "Say hello.").turns, 1);
});

test("an answer that streams while the server dies fails, stays, and is charged at most once", async () => {
  const { key } = await send(page, "POST", "/keys", { name: "after" });
  const before = await send(page, "GET", "/balance");
  await page.goto(`${server.address}/console/playground?new=1`);
  await page.locator(".compose textarea").fill("Count. [[sim tokens=400 pace=20]]");
  await page.keyboard.press("Control+Enter");
  await page.getByText("Streaming").waitFor();
  await page.waitForTimeout(1500);
  await server.kill();
  await page.getByText("Failed", { exact: true }).waitFor();
  const shown = await page.locator(".pcol .md").textContent();
  assert.ok(shown.length > 20, "the part that arrived is shown");
  await server.restart();
  await page.locator(".save.ok").waitFor({ timeout: 40_000 });
  // The hold of the interrupted call is released or settled, and the account works.
  await page.waitForFunction(
    async () => {
      const { session } = await (await fetch("/console/api/v1/session", { headers: { "x-tollgate-account": "-" } })).json();
      const reply = await fetch("/console/api/v1/balance", { headers: { "x-tollgate-account": session.accounts[0].id } });
      return /^[0.]*$/.test((await reply.json()).held);
    },
    null,
    { polling: 500, timeout: 30_000 },
  );
  const after = await send(page, "GET", "/balance");
  assert.ok(Number(after.credits) <= Number(before.credits), `${before.credits} before, ${after.credits} after`);
  const { data } = await send(page, "GET", "/calls?limit=5");
  assert.ok(new Set(data.map((one) => one.request_id)).size === data.length, "no call is recorded twice");
  assert.equal(await call(server, key), 200);
  // One button repeats the failed request.
  await page.getByRole("button", { name: "Ask sim/chat again" }).click();
  await page.getByText("Streaming").waitFor();
  await page.keyboard.press("Escape");
  await page.getByText("Stopped", { exact: true }).waitFor();
});
