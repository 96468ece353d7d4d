import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { becomeOwner, choosePersonItem, openBrowser, start } from "./harness.mjs";

// `head.ts` requests the session and the first data of a screen before the modules are loaded.

const STORED = "tollgate.signed-in";

const FIRST_DATA = {
  overview: "/console/v1/account/usage?limit=8",
  playground: "/console/v1/models",
  usage: "/console/api/v1/usage/series?",
};

let server;
let browser;
let page;
let account;
/** Requests of the page since its last reset: path and account. */
let sent = [];
before(async () => {
  server = await start();
  browser = await openBrowser();
  page = await browser.page();
  await becomeOwner(page, server);
  page.on("request", (request) => {
    const url = new URL(request.url());
    const path = url.pathname + url.search;
    // The page before may still open its live events.
    if (/^\/console\/(api\/)?v1\/(?!live$)/.test(path)) sent.push({ path, account: request.headers()["x-tollgate-account"] });
  });
  account = await page.evaluate((name) => localStorage.getItem(name), STORED);
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

async function open(screen) {
  sent = [];
  await page.goto(`${server.address}/console/${screen}`);
  await page.waitForFunction(() => document.querySelector("h1") && !document.querySelector('.skel, [aria-busy="true"]'));
}

for (const [screen, path] of Object.entries(FIRST_DATA)) {
  test(`${screen} requests its first data beside the session, and nothing twice`, async () => {
    await open(screen);
    assert.equal(sent[0].path, "/console/api/v1/session");
    assert.ok(sent[1].path.startsWith(path), sent[1].path);
    const reads = sent.map((one) => one.path);
    assert.deepEqual(reads.filter((one, index) => reads.indexOf(one) !== index), []);
    assert.deepEqual([...new Set(sent.map((one) => one.account))], ["-", account]);
  });
}

test("a screen loads its data although the early requests fail", async () => {
  const failed = new Set();
  await page.route(/\/console\/(api\/)?v1\/(session|models)$/, (route) => {
    const url = route.request().url();
    if (failed.has(url)) return route.continue();
    failed.add(url);
    return failed.size === 1 ? route.abort() : route.fulfill({ status: 503, json: { error: { message: "Busy", code: "overloaded" } } });
  });
  await open("playground");
  await page.locator(".compose textarea").waitFor();
  assert.equal(failed.size, 2);
  await page.unroute(/\/console\/(api\/)?v1\/(session|models)$/);
});

test("the data of another account is not requested again, and not shown", async () => {
  const other = account.replace(/.$/, account.endsWith("0") ? "1" : "0");
  await page.evaluate(([name, id]) => localStorage.setItem(name, id), [STORED, other]);
  await page.route("**/console/v1/models", (route) => {
    if (route.request().headers()["x-tollgate-account"] !== other) return route.continue();
    return route.fulfill({ json: { object: "list", data: [] } });
  });
  await open("playground");
  await page.locator(".compose textarea").waitFor();
  assert.equal(sent.filter((one) => one.account === other).length, 1);
  assert.equal(await page.evaluate((name) => localStorage.getItem(name), STORED), account);
  await page.unroute("**/console/v1/models");
});

test("after the end of the session, no data is requested", async () => {
  await choosePersonItem(page, "Sign out");
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  assert.equal(await page.evaluate((name) => localStorage.getItem(name), STORED), null);
  await open("playground");
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  assert.deepEqual(sent, [{ path: "/console/api/v1/session", account: "-" }]);
  assert.deepEqual(page.faults.filter((fault) => !fault.includes("net::ERR_FAILED")), []);
});
