import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { openBrowser, PASSWORD, send, start } from "./harness.mjs";
import { driver } from "./keyboard.mjs";

// The journeys of this file use no mouse, and no command of the browser that a keyboard lacks.

let server;
let browser;
let page;
let keyboard;
let focused;
let tabTo;
let walk;
let settled;
let go;
let chooseFile;
let assertDialog;
before(async () => {
  server = await start();
  browser = await openBrowser();
  page = await browser.page();
  ({ keyboard, focused, tabTo, walk, settled, go, chooseFile, assertDialog } = driver(page));
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

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
    await page.waitForFunction(() => document.activeElement?.closest("main"));
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

/** Waits until the focus is in a part of the page: an action has not lost it. */
function waitForFocus(part = "main") {
  return page.waitForFunction((part) => !!document.activeElement?.closest(part), part);
}

test("templates are searched, filtered, opened and tried", async () => {
  await go("Templates");
  await settled();
  await tabTo("Name, category or purpose");
  await keyboard.type("mockup");
  await page.getByRole("link", { name: "App mockup" }).waitFor();
  await tabTo("Images");
  await keyboard.press("Enter");
  await tabTo("Category");
  await keyboard.press("Enter");
  await page.getByRole("menu", { name: "Category" }).waitFor();
  await keyboard.type("m");
  assert.equal((await focused())?.name, "Marketing");
  await keyboard.press("Enter");
  assert.equal((await focused())?.name, "Category: Marketing");
  await tabTo("App mockup");
  await keyboard.press("Enter");
  const sheet = page.getByRole("dialog", { name: "App mockup" });
  await sheet.waitFor();
  await keyboard.press("Escape");
  await sheet.waitFor({ state: "detached" });
  assert.equal((await focused())?.name, "App mockup");
  await keyboard.press("Enter");
  await sheet.waitFor();
  await tabTo("Try");
  await keyboard.press("Enter");
  await page.waitForFunction(() => location.pathname.endsWith("/playground"));
  await settled();
  await waitForFocus();
});

test("the signing secret is shown after the password, rotated and hidden", async () => {
  // The proof of the sign-in is recent, so the first request is refused here.
  await page.route("**/console/v1/account/webhook_secret", (route) =>
    route.fulfill({ status: 403, json: { error: { message: "Enter the password.", code: "permission_denied", param: "step_up" } } }),
    { times: 1 },
  );
  await go("Webhooks");
  await settled();
  await tabTo("Show the secret");
  await keyboard.press("Enter");
  const proof = page.getByRole("dialog", { name: "Enter your password" });
  await proof.waitFor();
  assert.equal((await focused())?.name, "Password");
  await keyboard.type(PASSWORD);
  await keyboard.press("Enter");
  const secret = page.locator(".signing code").filter({ hasText: /^whsec_[\w+/]/ });
  await secret.waitFor();
  await proof.waitFor({ state: "detached" });
  const first = await secret.textContent();
  await tabTo("Copy the secret");
  await tabTo("Rotate", "Shift+Tab");
  await keyboard.press("Enter");
  const question = page.getByRole("dialog", { name: "Rotate the signing secret?" });
  await question.waitFor();
  await tabTo("Rotate secret");
  await keyboard.press("Enter");
  await question.waitFor({ state: "detached" });
  assert.equal((await focused())?.name, "Rotate");
  assert.notEqual(await secret.textContent(), first);
  await tabTo("Hide");
  await keyboard.press("Enter");
  await page.getByRole("button", { name: "Show the secret" }).waitFor();
  await waitForFocus();
});

test("the deliveries are opened, closed and turned over", async () => {
  const delivery = (number) => ({
    id: `job_${number}`,
    event_id: `evt_${number}`,
    job_type: `kind.${number}`,
    job_status: "completed",
    url: "http://receiver.example/hook",
    state: "failed",
    attempts: 3,
    failure: "The receiver answered with 500.",
    ended_at: new Date().toISOString(),
    due_at: null,
    delivered_at: null,
  });
  const data = Array.from({ length: 30 }, (_, index) => delivery(index + 1));
  await page.route("**/console/api/v1/deliveries?*", (route) => {
    const start = new URL(route.request().url()).searchParams.has("after") ? 25 : 0;
    return route.fulfill({ json: { object: "list", data: data.slice(start, start + 25), has_more: start === 0 } });
  });
  await go("Overview");
  await go("Webhooks");
  await settled();
  await tabTo("kind.1 completed");
  await keyboard.press("Enter");
  await page.getByText("The receiver answered with 500.").waitFor();
  await tabTo("Copy the event id");
  const sent = page.waitForRequest((request) => request.url().endsWith("/deliveries/job_1/redeliver"));
  await tabTo("Send again");
  await keyboard.press("Enter");
  await sent;
  await tabTo("kind.1 completed", "Shift+Tab");
  await keyboard.press("Space");
  await page.getByText("The receiver answered with 500.").waitFor({ state: "detached" });
  await tabTo(/^(Next|Older)/);
  await keyboard.press("Enter");
  await page.getByRole("button", { name: "kind.30 completed" }).waitFor();
  await tabTo(/^(Previous|Newer)/, "Shift+Tab");
  await keyboard.press("Enter");
  await page.getByRole("button", { name: "kind.1 completed", exact: true }).waitFor();
  await waitForFocus();
  await page.unroute("**/console/api/v1/deliveries?*");
});

test("a file is uploaded, opened, downloaded and deleted", async () => {
  await go("Upload a file");
  const dialog = page.getByRole("dialog", { name: "Upload a file" });
  await dialog.waitFor();
  assert.equal((await focused())?.name, "File", "the field of the file has the focus");
  await chooseFile({ name: "letter.txt", mimeType: "text/plain", buffer: Buffer.from("A letter.") });
  await dialog.getByText("letter.txt").waitFor();
  await tabTo("Never");
  await keyboard.press("ArrowRight");
  assert.equal((await focused())?.name, "1 day");
  await tabTo("Upload");
  await keyboard.press("Enter");
  await dialog.waitFor({ state: "detached" });
  await page.getByRole("link", { name: "letter.txt" }).waitFor();
  await tabTo("letter.txt");
  await keyboard.press("Enter");
  await page.getByRole("region", { name: "Details" }).waitFor();
  await tabTo("Download");
  const [download] = await Promise.all([page.waitForEvent("download"), keyboard.press("Enter")]);
  assert.equal(download.suggestedFilename(), "letter.txt");
  await tabTo("Delete");
  await keyboard.press("Enter");
  const question = page.getByRole("dialog", { name: "Delete “letter.txt”?" });
  await question.waitFor();
  await tabTo("Delete file");
  await keyboard.press("Enter");
  await page.getByText("No files yet").waitFor();
  await waitForFocus();
});

/** A file with two requests that the simulator answers after a time. */
function requests(name, delay) {
  const line = (id) => {
    const body = { model: "sim/chat", messages: [{ role: "user", content: `Wait. [[sim delay=${delay}]]` }] };
    return JSON.stringify({ custom_id: id, method: "POST", url: "/v1/chat/completions", body });
  };
  return { name, mimeType: "application/jsonl", buffer: Buffer.from(`${line("first")}\n${line("second")}\n`) };
}

test("a batch is created with a file, opened and cancelled", async () => {
  await go("Create a batch");
  const dialog = page.getByRole("dialog", { name: "Create a batch" });
  await dialog.waitFor();
  await tabTo("File");
  await chooseFile(requests("slow.jsonl", 60_000));
  await dialog.getByText("No faults found").waitFor();
  await tabTo(/^Cost limit/);
  await keyboard.type("1");
  await tabTo("Create batch");
  await keyboard.press("Enter");
  await dialog.waitFor({ state: "detached" });
  const pane = page.getByRole("region", { name: "Details" });
  await pane.getByRole("button", { name: "Cancel batch" }).waitFor();
  await waitForFocus(".pane");
  await keyboard.press("Escape");
  await pane.waitFor({ state: "detached" });
  await waitForFocus();
  await tabTo(/^…[0-9a-f]{8}$/);
  await keyboard.press("Enter");
  await pane.getByRole("button", { name: "Cancel batch" }).waitFor();
  await tabTo("Cancel batch");
  await keyboard.press("Enter");
  const question = page.getByRole("dialog", { name: "Cancel this batch?" });
  await question.waitFor();
  await tabTo("Cancel batch");
  await keyboard.press("Enter");
  await question.waitFor({ state: "detached" });
  await pane.getByText(/^Cancell(ing|ed)$/).first().waitFor();
  await waitForFocus(".pane");
});

test("the person signs out with the palette", async () => {
  await go("Sign out");
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  assert.deepEqual(page.faults, []);
});
