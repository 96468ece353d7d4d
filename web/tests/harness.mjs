// Starts the binary in a temporary folder, and Chromium beside it.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm } from "node:fs/promises";
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
 * Starts a server with an empty database. Returns its address and the sign-in links of its first
 * start.
 */
export async function start(binary = BINARY) {
  const folder = await mkdtemp(join(tmpdir(), "tollgate-web-"));
  const child = spawn(binary, ["serve", ...LISTEN, "--data", join(folder, "data")], {
    cwd: folder,
    env: { ...process.env, TOLLGATE_LOG: "error" },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const found = {};
  await new Promise((done, fail) => {
    const timer = setTimeout(() => fail(new Error("the server printed no links")), START_TIMEOUT_MS);
    const end = (result) => {
      clearTimeout(timer);
      result();
    };
    child.once("error", (error) => end(() => fail(error)));
    child.once("exit", (code) => end(() => fail(new Error(`the server ended with code ${code}`))));
    createInterface({ input: child.stdout }).on("line", (line) => {
      const link = /^\s*(console|operator)\s+(http\S+#\S+)/.exec(line);
      if (link) found[link[1]] = link[2];
      if (found.console && found.operator) end(done);
    });
  });
  return {
    // Cookies belong to one host name: the one of the link, which is not an IP address.
    address: new URL(found.console).origin,
    consoleLink: found.console,
    operatorLink: found.operator,
    async stop() {
      child.removeAllListeners("exit");
      const ended = new Promise((done) => child.once("exit", done));
      child.kill("SIGINT");
      await ended;
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** Opens a browser. Each page collects errors of scripts and of the content security policy. */
export async function openBrowser() {
  const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
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

/** Checks a page with axe in both themes, and writes screenshots. */
export async function inspect(page, name) {
  await mkdir(SCREENSHOTS, { recursive: true });
  const source = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
  const session = await page.context().newCDPSession(page);
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    await page.screenshot({ path: join(SCREENSHOTS, `${name}-${colorScheme}.png`) });
    // Scripts of the debugging protocol are not subject to the content security policy.
    await session.send("Runtime.evaluate", { expression: source });
    const { violations } = await page.evaluate(() => globalThis.axe.run());
    const summary = violations.map((one) => `${one.id}: ${one.nodes.map((node) => node.html).join(" ")}`);
    assert.deepEqual(summary, [], `${name}, ${colorScheme}`);
  }
  await session.detach();
  assert.deepEqual(page.faults, [], name);
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
