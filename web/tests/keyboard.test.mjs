import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { becomeOwner, openBrowser, PASSWORD, send, start } from "./harness.mjs";

// The journeys of this file use no mouse, and no command of the browser that a keyboard lacks.

/** Key presses after which a page of the console must have returned to its first element. */
const MAX_TABS = 150;

let server;
let browser;
let page;
let keyboard;
before(async () => {
  server = await start();
  browser = await openBrowser();
  page = await browser.page();
  keyboard = page.keyboard;
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

/** Describes the focused element, and whether its focus is visible. */
function focused() {
  return page.evaluate(() => {
    const element = document.activeElement;
    if (!element || element === document.body) return null;
    const name = element.getAttribute("aria-label") ?? element.labels?.[0]?.textContent ?? element.textContent ?? "";
    const ring = (one, pseudo) => {
      const style = getComputedStyle(one, pseudo);
      return [style.outlineStyle !== "none" && style.outlineWidth !== "0px" ? style.outline : "", style.boxShadow, style.borderColor, style.backgroundColor].join();
    };
    // A frame around a field can show its focus.
    const around = [];
    for (let one = element; one && around.length < 6; one = one.parentElement) around.push(one);
    const withFocus = around.map((one) => ring(one));
    const box = element.getBoundingClientRect();
    element.blur();
    const withoutFocus = around.map((one) => ring(one));
    element.focus({ preventScroll: true });
    return {
      name: name.replace(/\s+/g, " ").trim().slice(0, 60),
      tag: element.localName,
      role: element.getAttribute("role"),
      isVisible: withFocus.some((style, index) => style !== withoutFocus[index]),
      isOnScreen: box.bottom > 0 && box.right > 0 && box.top < innerHeight && box.left < innerWidth,
    };
  });
}

/** Presses Tab until an element with a name has the focus. */
async function tabTo(name, key = "Tab") {
  for (let count = 0; count < MAX_TABS; count += 1) {
    await keyboard.press(key);
    const found = await focused();
    if (found && (typeof name === "string" ? found.name === name : name.test(found.name))) return found;
  }
  return assert.fail(`Tab does not reach ${name}`);
}

/** Goes through the elements of a part of the page and back, and checks that each focus is visible. */
async function walk(where, part = "main") {
  await page.evaluate((part) => {
    const first = document.querySelector(part);
    first.tabIndex = -1;
    first.focus();
  }, part);
  const isInside = () => page.evaluate((part) => !!document.activeElement?.closest(part), part);
  const names = [];
  for (;;) {
    await keyboard.press("Tab");
    if (!(await isInside())) break;
    const found = await focused();
    assert.ok(names.length < MAX_TABS, `${where}: Tab does not leave ${names.slice(-3).join(", ")}`);
    assert.ok(found.isVisible, `${where}: the focus of ${found.tag} ${found.name} is invisible`);
    assert.ok(found.isOnScreen, `${where}: ${found.tag} ${found.name} has the focus outside the screen`);
    names.push(found.name);
  }
  // Back to before the first element. One press more enters the part again from behind.
  for (let count = 0; count <= names.length + 1; count += 1) {
    await keyboard.press("Shift+Tab");
    if (count > 0 && !(await isInside())) return names;
  }
  return assert.fail(`${where}: Shift+Tab does not leave`);
}

async function settled() {
  await page.waitForFunction(() => document.querySelector("h1") && !document.querySelector('.skel, [aria-busy="true"]'));
}

/** Opens a screen with the command palette. */
async function go(label) {
  await keyboard.press("Control+k");
  await page.getByRole("combobox", { name: "Search actions and places" }).waitFor();
  await keyboard.type(label);
  const option = page.getByRole("option", { name: label, exact: true });
  await option.waitFor();
  for (let count = 0; (await option.getAttribute("aria-selected")) !== "true"; count += 1) {
    assert.ok(count < 30, `the arrows do not reach ${label}`);
    await keyboard.press("ArrowDown");
  }
  await keyboard.press("Enter");
  await page.getByRole("dialog", { name: "Search" }).waitFor({ state: "detached" });
}

/** Asserts that a dialog has the focus, returns it after Esc, and cannot be left by Tab. */
async function assertDialog(name) {
  const dialog = page.getByRole("dialog", { name });
  await dialog.waitFor();
  for (let count = 0; count < 40; count += 1) {
    await keyboard.press("Tab");
    const isInside = await page.evaluate(() => document.activeElement === document.body || !!document.activeElement?.closest("dialog[open]"));
    assert.ok(isInside, `${name}: the focus has left the dialog`);
    const found = await focused();
    if (found) assert.ok(found.isVisible, `${name}: the focus of ${found.tag} ${found.name} is invisible`);
  }
  await keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
}

test("the link, the first questions and the sign-in work by keyboard", async () => {
  await page.goto(server.consoleLink);
  await page.getByRole("button", { name: "Sign in" }).waitFor();
  await tabTo("Sign in");
  await keyboard.press("Enter");
  await page.getByRole("heading", { name: "Welcome" }).waitFor();
  const email = await focused();
  assert.equal(email?.tag, "input", "the first field has the focus");
  await keyboard.type("jo@example.com");
  await tabTo("Name");
  await keyboard.type("Jo Okafor");
  await tabTo("Password");
  await keyboard.type(PASSWORD);
  await keyboard.press("Enter");
  await page.getByRole("heading", { name: "Overview" }).waitFor();

  await tabTo(/Jo Okafor$/);
  await keyboard.press("Enter");
  await keyboard.press("ArrowDown");
  assert.equal((await focused())?.name, "Sign out");
  await keyboard.press("Enter");
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  await keyboard.type("jo@example.com");
  await tabTo("Password");
  await keyboard.type(PASSWORD);
  await keyboard.press("Enter");
  await page.getByRole("heading", { name: "Overview" }).waitFor();
});

test("the first Tab of a page skips to its content", async () => {
  await page.reload();
  await page.getByRole("heading", { name: "Overview" }).waitFor();
  await keyboard.press("Tab");
  assert.deepEqual(await focused().then((found) => [found?.name, found?.isOnScreen]), ["Skip to the content", true]);
  await keyboard.press("Enter");
  await keyboard.press("Tab");
  const isInMain = await page.evaluate(() => !!document.activeElement?.closest("main"));
  assert.ok(isInMain, "the focus is in the content");
});

const SCREENS = [
  "Playground",
  "Chats",
  "Models",
  "Jobs",
  "Files",
  "Batches",
  "Templates",
  "Usage",
  "Calls",
  "Keys",
  "People",
  "Billing",
  "Webhooks",
  "Audit log",
  "Settings",
  "Overview",
];

for (const screen of SCREENS) {
  test(`${screen} is reached, and gone through with a visible focus`, async () => {
    await go(screen);
    await page.waitForFunction((path) => location.pathname.startsWith(path), `/console/${screen.toLowerCase().split(" ")[0]}`);
    await settled();
    // Screen readers announce the new page: its heading or its first field has the focus.
    const isInMain = await page.evaluate(() => !!document.activeElement?.closest("main"));
    assert.ok(isInMain, "the focus is in the content");
    await walk(screen);
  });
}

test("the navigation opens a screen by keyboard", async () => {
  const names = await walk("navigation", ".side");
  assert.deepEqual(
    SCREENS.filter((screen) => !names.includes(screen)),
    [],
  );
  await tabTo("Keys");
  await keyboard.press("Enter");
  await page.getByRole("heading", { name: "Keys" }).waitFor();
});

test("menus open, move, close and return the focus", async () => {
  await tabTo("Theme");
  const theme = () => page.getByRole("menu", { name: "Theme" });
  for (const open of ["Enter", "Space", "ArrowDown"]) {
    await keyboard.press(open);
    await theme().waitFor();
    const first = (await focused())?.name;
    await keyboard.press("ArrowDown");
    assert.notEqual((await focused())?.name, first);
    await keyboard.press("ArrowUp");
    assert.equal((await focused())?.name, first);
    await keyboard.press("End");
    await keyboard.press("Escape");
    await theme().waitFor({ state: "hidden" });
    assert.equal((await focused())?.name, "Theme", `after ${open}`);
  }
});

test("the palette returns the focus when it closes", async () => {
  const before = await focused();
  await keyboard.press("Control+k");
  await keyboard.type("no such place");
  await page.getByText("Nothing matches").waitFor();
  await keyboard.press("Escape");
  await page.getByRole("dialog", { name: "Search" }).waitFor({ state: "detached" });
  assert.equal((await focused())?.name, before?.name);
});

const DIALOGS = [
  ["Keys", "Create key", "Create a key"],
  ["People", "Invite", /^Invite/],
  ["Files", /^Upload/, "Upload a file"],
  ["Batches", "Create batch", "Create a batch"],
];

for (const [screen, action, title] of DIALOGS) {
  test(`the dialog of ${screen} holds the focus and returns it`, async () => {
    await go(screen);
    await page.getByRole("heading", { name: screen, exact: true }).waitFor();
    await settled();
    const { name } = await tabTo(action);
    await keyboard.press("Enter");
    await assertDialog(title);
    assert.equal((await focused())?.name, name);
  });
}

test("a key is created, renamed and revoked", async () => {
  await go("Create key");
  await page.getByRole("dialog", { name: "Create a key" }).waitFor();
  await keyboard.type("nightly");
  await keyboard.press("Enter");
  const shown = page.getByRole("dialog", { name: "Key “nightly” is ready" });
  await shown.waitFor();
  await tabTo(/^I have/);
  await keyboard.press("Space");
  await shown.waitFor({ state: "detached" });
  await tabTo("Actions for nightly");
  await keyboard.press("Enter");
  await page.getByRole("menu").waitFor();
  await keyboard.type("r");
  await keyboard.press("End");
  assert.equal((await focused())?.name, "Revoke");
  await keyboard.press("Enter");
  const question = page.getByRole("dialog", { name: /nightly/ });
  await question.waitFor();
  await tabTo(/^Revoke/);
  await keyboard.press("Enter");
  await question.waitFor({ state: "detached" });
  const { data } = await send(page, "GET", "/keys");
  assert.equal(data.find((key) => key.name === "nightly")?.state ?? "revoked", "revoked");
});

test("a person is invited", async () => {
  await go("Invite a person");
  const dialog = page.getByRole("dialog");
  await dialog.waitFor();
  await keyboard.type("ana@example.com");
  await keyboard.press("Enter");
  await page.getByRole("heading", { name: "Invitation for ana@example.com" }).waitFor();
  await tabTo("Done");
  await keyboard.press("Enter");
  await dialog.waitFor({ state: "detached" });
});

test("a row of a list opens with Enter, and closes with Esc", async () => {
  await go("Models");
  await settled();
  await tabTo(/^sim\/? ?chat$/);
  await keyboard.press("Enter");
  await page.waitForFunction(() => location.search.includes("model="));
  await keyboard.press("Escape");
  await page.waitForFunction(() => !location.search.includes("model="));
});

test("a chat is held, stopped, edited and saved", async () => {
  await go("New chat");
  await page.locator(".compose textarea").waitFor();
  await page.waitForFunction(() => document.activeElement?.matches(".compose textarea"));
  await keyboard.type("Say hello.");
  await keyboard.press("Control+Enter");
  await page.getByText("Done", { exact: true }).waitFor();
  await keyboard.type("[[sim tokens=400 pace=20]]");
  await keyboard.press("Control+Enter");
  await page.getByText("Streaming").waitFor();
  await keyboard.press("Escape");
  await page.getByText("Stopped", { exact: true }).waitFor();
  await page.locator(".save.ok").waitFor();
  await tabTo("Edit message 2", "Shift+Tab");
  await keyboard.press("Enter");
  await keyboard.press("Control+a");
  await keyboard.type("Shorter.");
  await keyboard.press("Control+Enter");
  await page.getByText("Done", { exact: true }).nth(1).waitFor();
  await walk("chat");
});

test("the person signs out with the palette", async () => {
  await go("Sign out");
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  assert.deepEqual(page.faults, []);
});
