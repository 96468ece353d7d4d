// Starts the binary in a temporary folder, and Chromium beside it.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

import { chromium } from "playwright-core";

const HERE = fileURLToPath(new URL(".", import.meta.url));
const SCREENSHOTS = join(HERE, "screenshots");
const BINARY = resolve(process.env.TOLLGATE_BIN ?? join(HERE, "../../target/debug/tollgate"));
const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";
const LISTEN = ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
const ACTION_TIMEOUT_MS = 15_000;
const START_TIMEOUT_MS = 60_000;

export const PASSWORD = "violet harbour 41 lanterns";

/**
 * Starts a server with an empty database, and the text of a settings file. Returns its address and
 * the sign-in links of its first start. `kill` ends the server without a warning; `restart` starts it
 * again on the same data and address.
 */
export async function start(settings = "") {
  const folder = await mkdtemp(join(tmpdir(), "tollgate-web-"));
  await writeFile(join(folder, "tollgate.toml"), settings);
  const first = await launch(folder, LISTEN, true);
  // Cookies belong to one host name: the one of the link, which is not an IP address.
  const address = new URL(first.links.console).origin;
  const listen = ["--listen", `127.0.0.1:${new URL(address).port}`, "--admin", "127.0.0.1:0"];
  let { child } = first;
  const end = async (signal) => {
    child.removeAllListeners("exit");
    if (child.exitCode !== null || child.signalCode !== null) return;
    const ended = new Promise((done) => child.once("exit", done));
    child.kill(signal);
    await ended;
  };
  return {
    address,
    consoleLink: first.links.console,
    operatorLink: first.links.operator,
    kill: () => end("SIGKILL"),
    async restart() {
      ({ child } = await launch(folder, listen, false));
    },
    async stop() {
      await end("SIGINT");
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** Starts a process, and waits until it listens and has printed its links, if it prints them. */
async function launch(folder, listen, hasLinks) {
  const child = spawn(BINARY, ["serve", ...listen, "--data", join(folder, "data")], {
    cwd: folder,
    env: { ...process.env, TOLLGATE_LOG: "error" },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const links = {};
  await new Promise((done, fail) => {
    const timer = setTimeout(() => fail(new Error("the server did not start")), START_TIMEOUT_MS);
    const end = (result) => {
      clearTimeout(timer);
      result();
    };
    child.once("error", (error) => end(() => fail(error)));
    child.once("exit", (code) => end(() => fail(new Error(`the server ended with code ${code}`))));
    createInterface({ input: child.stdout }).on("line", (line) => {
      const link = /^\s*(console|operator)\s+(http\S+#\S+)/.exec(line);
      if (link) links[link[1]] = link[2];
      const isReady = hasLinks ? links.console && links.operator : line.includes("listens on");
      if (isReady) end(done);
    });
  });
  return { child, links };
}

/**
 * Opens a browser with these further arguments. Each page collects errors of scripts and of the
 * content security policy.
 */
export async function openBrowser(args = []) {
  const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox", ...args] });
  return {
    async page(options = {}) {
      const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, reducedMotion: "reduce", ...options });
      context.setDefaultTimeout(ACTION_TIMEOUT_MS);
      const page = await context.newPage();
      page.faults = [];
      page.on("pageerror", (error) => page.faults.push(String(error)));
      page.on("console", (message) => {
        // The browser also reports each refused request; the journeys check those themselves.
        if (message.type() === "error" && !message.text().includes("the server responded with a status")) {
          page.faults.push(message.text());
        }
      });
      return page;
    },
    close: () => browser.close(),
  };
}

const AXE = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Waits until the page has its data and fonts, and all animations have ended. */
async function settle(page) {
  await page.waitForFunction(() => !document.querySelector('.skel, [aria-busy="true"]'));
  await page.evaluate(async () => {
    await document.fonts.ready;
    const isFinite = (animation) => animation.effect.getComputedTiming().endTime !== Infinity;
    const ends = document.getAnimations().filter(isFinite).map((animation) => animation.finished);
    await Promise.allSettled(ends);
    const nextFrame = () => new Promise((done) => requestAnimationFrame(done));
    await nextFrame();
    await nextFrame();
  });
}

/**
 * Checks a page with axe in both themes, and writes screenshots. With `isPhone`, also checks the
 * light theme on a phone, where the page must not be wider than the screen.
 */
export async function inspect(page, name, { isPhone = false } = {}) {
  await mkdir(SCREENSHOTS, { recursive: true });
  const session = await page.context().newCDPSession(page);
  const check = async (variant) => {
    await settle(page);
    await page.screenshot({ path: join(SCREENSHOTS, `${name}-${variant}.png`) });
    // Scripts of the debugging protocol are not subject to the content security policy.
    await session.send("Runtime.evaluate", { expression: AXE });
    const { violations } = await page.evaluate(() => globalThis.axe.run({ resultTypes: ["violations"] }));
    const summary = violations.map((one) => `${one.id}: ${one.nodes.map((node) => node.html).join(" ")}`);
    assert.deepEqual(summary, [], `${name}, ${variant}`);
  };
  for (const colorScheme of ["dark", "light"]) {
    await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    await check(colorScheme);
  }
  if (isPhone) {
    const size = page.viewportSize();
    await page.setViewportSize({ width: 390, height: 844 });
    await check("390");
    const excess = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.equal(excess, 0, `${name} is wider than a phone`);
    await page.setViewportSize(size);
  }
  await session.detach();
  assert.deepEqual(page.faults, [], name);
}

/** Sends a request of the console API in the first account of the person, and returns the body. */
export async function send(page, method, path, body) {
  return page.evaluate(
    async ([method, path, body]) => {
      const api = async (method, path, account, body) => {
        const headers = { "x-tollgate-account": account, "content-type": "application/json" };
        const response = await fetch(`/console/api/v1${path}`, { method, headers, body: JSON.stringify(body) });
        const reply = await response.json();
        if (!response.ok) throw new Error(`${method} ${path}: ${reply.error.message}`);
        return reply;
      };
      const { session } = await api("GET", "/session", "-");
      return api(method, path, session.accounts[0].id, body);
    },
    [method, path, body],
  );
}

/** Calls the simulator with a key, and returns the status. */
export async function call(server, key) {
  const response = await fetch(`${server.address}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify({ model: "sim/chat", messages: [{ role: "user", content: "Say hello." }] }),
  });
  await response.arrayBuffer();
  return response.status;
}

/** Completes a person who was invited. */
export async function accept(page, link, name, password) {
  await page.goto(link);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByLabel("Name").fill(name);
  await page.getByLabel("Password", { exact: true }).fill(password);
  await page.getByRole("button", { name: "Continue" }).click();
  await page.getByRole("heading", { name: "Overview" }).waitFor();
}

/** Redeems the link of the first start, and completes the owner. */
export async function becomeOwner(page, server) {
  await page.goto(server.consoleLink);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { name: "Welcome" }).waitFor();
  await page.getByLabel("E-mail").fill("jo@example.com");
  await page.getByLabel("Name").fill("Jo Okafor");
  await page.getByLabel("Password", { exact: true }).fill(PASSWORD);
  await page.getByRole("button", { name: "Continue" }).click();
  await page.getByRole("heading", { name: "Overview" }).waitFor();
}

/** Opens the menu of the person, and chooses an item. */
export async function choosePersonItem(page, item) {
  await page.getByRole("button", { name: "Jo Okafor", exact: true }).click();
  await page.getByRole("menuitem", { name: item }).click();
}
