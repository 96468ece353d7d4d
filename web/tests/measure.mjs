// Measures the console in Chromium. `npm run measure` prints the figures of docs/performance.md.

import { argv } from "node:process";
import { pathToFileURL } from "node:url";

import { becomeOwner, openBrowser, start } from "./harness.mjs";

// Limits of compressed bytes and of the number of scripts of a first load.
export const MAX_SCRIPT_BYTES = 60 * 1024;
export const MAX_STYLE_BYTES = 20 * 1024;
export const MAX_SCRIPTS = 25;
export const MAX_ALL_SCRIPT_BYTES = 350 * 1024;

export const SCREENS = [
  "overview",
  "playground",
  "chats",
  "models",
  "jobs",
  "files",
  "batches",
  "templates",
  "usage",
  "calls",
  "keys",
  "people",
  "billing",
  "webhooks",
  "audit",
  "settings",
];

/** Slow 4G as the developer tools of Chromium define it. */
const SLOW_4G = { offline: false, latency: 562.5, downloadThroughput: (1.44 * 1024 * 1024) / 8, uploadThroughput: (675 * 1024) / 8 };

const ROUNDS = 5;

/** Milliseconds for a load. A script that waits in the page would compete with it. */
const LOAD_MS = 2500;

const SLOW_LOAD_MS = 5000;

const CPU_RATE = 4;

/** Collects LCP, CLS and INP of each page that is opened from now on. */
export function observe(page) {
  return page.addInitScript(() => {
    const figures = { lcp: 0, cls: 0, inp: 0 };
    globalThis.figures = figures;
    let start = 0;
    let last = 0;
    let sum = 0;
    const watch = (type, options, take) =>
      new PerformanceObserver((list) => list.getEntries().forEach(take)).observe({ type, buffered: true, ...options });
    watch("largest-contentful-paint", {}, (entry) => {
      figures.lcp = entry.startTime;
    });
    watch("layout-shift", {}, (entry) => {
      if (entry.hadRecentInput) return;
      // The largest sum of shifts within 5 s, with pauses below 1 s.
      const isSame = entry.startTime - last < 1000 && entry.startTime - start < 5000;
      sum = isSame ? sum + entry.value : entry.value;
      if (!isSame) start = entry.startTime;
      last = entry.startTime;
      figures.cls = Math.max(figures.cls, sum);
    });
    watch("event", { durationThreshold: 16 }, (entry) => {
      if (entry.interactionId) figures.inp = Math.max(figures.inp, entry.duration);
    });
  });
}

/** Loads a page with an empty cache, and returns its compressed sizes. */
export async function firstLoad(page, address) {
  const responses = [];
  page.on("response", (response) => responses.push(response));
  await page.goto(address);
  await page.waitForFunction(() => document.querySelector("h1") && !document.querySelector('.skel, [aria-busy="true"]'));
  const found = { scripts: 0, scriptBytes: 0, styleBytes: 0 };
  for (const response of responses) {
    const path = new URL(response.url()).pathname;
    if (!/\.(js|css)$/.test(path)) continue;
    const { responseBodySize } = await response.request().sizes();
    if (path.endsWith(".css")) found.styleBytes += responseBodySize;
    else {
      found.scripts += 1;
      found.scriptBytes += responseBodySize;
    }
  }
  return found;
}

function median(values) {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];
}

function ready(page) {
  return page.waitForFunction(() => document.querySelector("h1") && !document.querySelector('.skel, [aria-busy="true"]'), null, {
    timeout: 60_000,
  });
}

/**
 * Opens a screen several times with an empty cache, the cookies and storage of `storageState`, and
 * limits of the CPU or the network.
 */
async function loads(browser, storageState, address, limits) {
  const lcp = [];
  const cls = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const page = await browser.page({ reducedMotion: "no-preference", storageState });
    await observe(page);
    const session = await page.context().newCDPSession(page);
    if (limits.cpu) await session.send("Emulation.setCPUThrottlingRate", { rate: limits.cpu });
    if (limits.network) {
      await session.send("Network.enable");
      await session.send("Network.emulateNetworkConditions", limits.network);
    }
    await page.goto(address, { timeout: 60_000 });
    await page.waitForTimeout(limits.network ? SLOW_LOAD_MS : LOAD_MS);
    await ready(page);
    const figures = await page.evaluate(() => globalThis.figures);
    lcp.push(figures.lcp);
    cls.push(figures.cls);
    await page.context().close();
  }
  return { lcp: Math.round(median(lcp)), cls: Math.max(...cls).toFixed(3) };
}

/** Clicks, types and opens dialogs with a slow CPU, and returns the longest interaction. */
async function interactions(browser, cookies, server) {
  const page = await browser.page({ reducedMotion: "no-preference" });
  await page.context().addCookies(cookies);
  await observe(page);
  const session = await page.context().newCDPSession(page);
  await session.send("Emulation.setCPUThrottlingRate", { rate: CPU_RATE });
  const longest = {};
  const note = async (name) => {
    await page.waitForTimeout(500);
    longest[name] = await page.evaluate(() => {
      const { inp } = globalThis.figures;
      globalThis.figures.inp = 0;
      return inp;
    });
  };
  await page.goto(`${server.address}/console/overview`);
  await ready(page);
  for (const screen of ["Models", "Keys", "Usage", "Calls", "Playground"]) {
    await page.getByRole("navigation").getByRole("link", { name: screen, exact: true }).click();
    await ready(page);
    await note(`open ${screen}`);
  }
  await page.locator(".compose textarea").pressSequentially("A message of some words", { delay: 40 });
  await note("type a message");
  await page.keyboard.press("Control+k");
  await page.keyboard.type("create key", { delay: 40 });
  await note("search the palette");
  await page.keyboard.press("Enter");
  await page.getByRole("dialog", { name: "Create a key" }).waitFor();
  await page.keyboard.type("production", { delay: 40 });
  await note("open a dialog and type");
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Theme" }).click();
  await note("open a menu");
  await page.context().close();
  return longest;
}

/** Streams four answers of 200 tokens a second, and returns quantiles of the frames. */
async function frames(browser, cookies, server) {
  const page = await browser.page({ reducedMotion: "no-preference" });
  await page.context().addCookies(cookies);
  await page.goto(`${server.address}/console/playground?new=1`);
  await ready(page);
  for (let column = 2; column <= 4; column += 1) await page.getByRole("button", { name: "Add column" }).click();
  await page.locator(".compose textarea").fill("[[sim tokens=1600 pace=5]]");
  await page.keyboard.press("Control+Enter");
  await page.getByText("Streaming").nth(3).waitFor();
  const all = await page.evaluate(
    () =>
      new Promise((done) => {
        const found = [];
        const begin = performance.now();
        let last = begin;
        const next = (now) => {
          found.push(now - last);
          last = now;
          if (now - begin < 7000) requestAnimationFrame(next);
          else done(found.toSorted((a, b) => a - b));
        };
        requestAnimationFrame(next);
      }),
  );
  await page.keyboard.press("Escape");
  await page.context().close();
  const at = (share) => Math.round(all[Math.floor(all.length * share)]);
  return { count: all.length, p50: at(0.5), p95: at(0.95), p99: at(0.99) };
}

async function measure() {
  const server = await start();
  const browser = await openBrowser();
  try {
    const owner = await browser.page();
    await becomeOwner(owner, server);
    const storageState = await owner.context().storageState();
    const { cookies } = storageState;
    const fresh = await browser.page();
    await fresh.context().addCookies(cookies);
    const print = (name, value) => console.log(name.padEnd(44), typeof value === "string" ? value : JSON.stringify(value));
    print("first load, compressed", await firstLoad(fresh, `${server.address}/console/overview`));
    await fresh.context().close();
    for (const screen of ["sign-in", "overview", "playground", "usage"]) {
      const address = `${server.address}/console/${screen}`;
      const own = screen === "sign-in" ? { cookies: [], origins: [] } : storageState;
      print(`${screen}: LCP ms, CLS`, await loads(browser, own, address, {}));
      print(`${screen}: CPU ÷ ${CPU_RATE}`, await loads(browser, own, address, { cpu: CPU_RATE }));
      print(`${screen}: Slow 4G`, await loads(browser, own, address, { network: SLOW_4G }));
    }
    for (const [name, duration] of Object.entries(await interactions(browser, cookies, server))) {
      print(`interaction, CPU ÷ ${CPU_RATE}: ${name}`, `${duration} ms`);
    }
    print("frames of 4 columns × 200 tokens/s, ms", await frames(browser, cookies, server));
  } finally {
    await browser.close();
    await server.stop();
  }
}

if (import.meta.url === pathToFileURL(argv[1] ?? "").href) await measure();
