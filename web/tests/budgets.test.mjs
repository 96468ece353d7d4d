import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { becomeOwner, openBrowser, start } from "./harness.mjs";
import { firstLoad, MAX_ALL_SCRIPT_BYTES, MAX_SCRIPT_BYTES, MAX_SCRIPTS, MAX_STYLE_BYTES, observe, SCREENS } from "./measure.mjs";

const MAX_CLS = 0.05;

let server;
let browser;
let page;
const requested = new Map();
before(async () => {
  server = await start();
  browser = await openBrowser();
  page = await browser.page({ reducedMotion: "no-preference" });
  page.context().on("request", (request) => {
    const url = new URL(request.url());
    if (/^https?:$/.test(url.protocol)) requested.set(url.href, url.origin);
  });
  await becomeOwner(page, server);
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

for (const path of ["/overview", "/sign-in"]) {
  test(`the first load of ${path} stays in its limits`, async () => {
    const fresh = await browser.page();
    if (path === "/overview") await fresh.context().addCookies(await page.context().cookies());
    const { scripts, scriptBytes, styleBytes } = await firstLoad(fresh, `${server.address}/console${path}`);
    assert.ok(scriptBytes <= MAX_SCRIPT_BYTES, `${scriptBytes} bytes of scripts`);
    assert.ok(styleBytes <= MAX_STYLE_BYTES, `${styleBytes} bytes of styles`);
    assert.ok(scripts <= MAX_SCRIPTS, `${scripts} scripts`);
    await fresh.context().close();
  });
}

test("all screens together stay in the limit of scripts, and shift nothing", async () => {
  const sizes = new Map();
  page.on("response", async (response) => {
    const path = new URL(response.url()).pathname;
    if (!path.endsWith(".js") || sizes.has(path)) return;
    sizes.set(path, 0);
    sizes.set(path, (await response.request().sizes()).responseBodySize);
  });
  const session = await page.context().newCDPSession(page);
  await session.send("Network.setCacheDisabled", { cacheDisabled: true });
  await observe(page);
  for (const screen of SCREENS) {
    await page.goto(`${server.address}/console/${screen}`);
    await page.waitForFunction(() => document.querySelector("h1") && !document.querySelector('.skel, [aria-busy="true"]'));
    await page.evaluate(() => new Promise((done) => setTimeout(done, 200)));
    const shift = await page.evaluate(() => globalThis.figures.cls);
    assert.ok(shift <= MAX_CLS, `${screen} shifts by ${shift}`);
  }
  const all = [...sizes.values()].reduce((sum, size) => sum + size, 0);
  assert.ok(all > 0 && all <= MAX_ALL_SCRIPT_BYTES, `${all} bytes of scripts`);
  assert.deepEqual(page.faults, []);
});

test("a chat shifts nothing while its answers grow", async () => {
  await page.goto(`${server.address}/console/playground?new=1`);
  await page.getByRole("button", { name: "Add column" }).click();
  await page.locator(".compose textarea").fill("[[sim tokens=200 pace=5]]");
  await page.keyboard.press("Control+Enter");
  await page.getByText("Done", { exact: true }).nth(1).waitFor();
  const shift = await page.evaluate(() => globalThis.figures.cls);
  assert.ok(shift <= MAX_CLS, `the chat shifts by ${shift}`);
});

test("no other host is requested", () => {
  const foreign = [...requested].filter(([, origin]) => origin !== server.address).map(([address]) => address);
  assert.deepEqual(foreign, []);
});
