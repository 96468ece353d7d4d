import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { becomeOwner, openBrowser, start } from "./harness.mjs";
import { driver } from "./keyboard.mjs";

// The modes of the playground by keyboard alone: each is filled in and sent, and its result reached.

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
before(async () => {
  server = await start();
  browser = await openBrowser();
  page = await browser.page();
  await becomeOwner(page, server);
  ({ keyboard, focused, tabTo, walk, settled, go, chooseFile } = driver(page));
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

/** Opens a mode with the arrow keys of the tabs, as a person does from any other mode. */
async function openMode(label) {
  await go("Playground");
  await page.locator(".modes").waitFor();
  await settled();
  do await tabTo(/./);
  while ((await focused()).role !== "tab");
  for (let count = 0; (await focused())?.name !== label; count += 1) {
    assert.ok(count < 12, `the arrows do not reach ${label}`);
    const { name } = await focused();
    await keyboard.press("ArrowRight");
    await page.waitForFunction((name) => document.querySelector('.modes [aria-selected="true"]')?.textContent !== name, name);
    const now = await focused();
    assert.equal(now?.role, "tab", `the focus stays in the tabs after ${name}`);
  }
}

/** Whether the focus is in the results. */
function isInResults() {
  return page.evaluate(() => !!document.activeElement?.closest(".results"));
}

async function reach(name) {
  await tabTo(name);
  assert.ok(await isInResults(), `${name} is in the results`);
}

test("an image is generated, and its result downloaded", async () => {
  await openMode("Image");
  await walk("image");
  await tabTo("Prompt");
  await keyboard.type("A lighthouse");
  await tabTo("Input images, optional");
  const png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII=";
  await chooseFile({ name: "dot.png", mimeType: "image/png", buffer: Buffer.from(png, "base64") });
  await tabTo("Remove dot.png");
  await keyboard.press("Enter");
  await tabTo("2");
  await keyboard.press("Space");
  await tabTo("Format");
  await keyboard.type("png");
  await tabTo("Generate");
  await keyboard.press("Enter");
  await page.locator(".tiles img").nth(1).waitFor();
  await reach(/^Download/);
  const [download] = await Promise.all([page.waitForEvent("download"), keyboard.press("Enter")]);
  assert.match(download.suggestedFilename(), /^media_.*\.png$/);
});

test("a video is generated with the shortcut of the form, and cancelled", async () => {
  await openMode("Video");
  await walk("video");
  await tabTo("Prompt");
  await keyboard.type("A wave [[sim delay=60000]]");
  await keyboard.press("Control+Enter");
  await page.getByText("Running", { exact: true }).waitFor();
  await reach("Cancel");
  await keyboard.press("Enter");
  await page.getByText("Cancelled", { exact: true }).first().waitFor();
  await tabTo("Prompt", "Shift+Tab");
  await keyboard.press("Control+a");
  await keyboard.type("A wave");
  await tabTo("Generate");
  await keyboard.press("Enter");
  await page.locator(".tiles video").first().waitFor();
  await reach(/^Download/);
});

test("a composition is planned, edited and rendered", async () => {
  await openMode("Compose");
  await settled();
  await walk("compose");
  await tabTo("Topic");
  await keyboard.press("ArrowRight");
  assert.equal((await focused())?.name, "Script");
  await tabTo("Script");
  await keyboard.type("The first scene.");
  await keyboard.press("Enter");
  await keyboard.press("Enter");
  await keyboard.type("The second scene.");
  await tabTo("Plan");
  await keyboard.press("Enter");
  const board = page.getByRole("region", { name: "Storyboard" });
  await board.waitFor({ timeout: 60_000 });
  await reach("Title");
  await keyboard.press("Control+a");
  await keyboard.type("Two scenes");
  await reach("Move scene 1 down");
  await keyboard.press("Enter");
  // The moved scene is the last one now.
  await page.waitForFunction(() => document.activeElement?.ariaLabel === "Move scene 2 up");
  await reach("Add scene");
  await keyboard.press("Enter");
  await reach("Remove scene 3");
  await keyboard.press("Enter");
  await page.getByRole("heading", { name: "Scene 3" }).waitFor({ state: "detached" });
  await tabTo("Render", "Shift+Tab");
  await keyboard.press("Enter");
  await page.getByRole("heading", { name: /^Composing|^Composition$/ }).first().waitFor();
});

test("a text is spoken, and the recording downloaded", async () => {
  await openMode("Speech");
  await walk("speech");
  await tabTo("Text");
  await keyboard.type("Good morning.");
  await tabTo("wav");
  await keyboard.press("Enter");
  await tabTo("Speak");
  await keyboard.press("Enter");
  await page.locator(".results audio").waitFor();
  await reach("Download the recording");
  const [download] = await Promise.all([page.waitForEvent("download"), keyboard.press("Enter")]);
  assert.equal(download.suggestedFilename(), "speech.wav");
  await reach(/^Recording of/);
});

/** A second of silence. */
function silence() {
  const rate = 8000;
  const wave = Buffer.alloc(44 + rate * 2);
  wave.write("RIFF", 0);
  wave.writeUInt32LE(36 + rate * 2, 4);
  wave.write("WAVEfmt ", 8);
  wave.writeUInt32LE(16, 16);
  wave.writeUInt16LE(1, 20);
  wave.writeUInt16LE(1, 22);
  wave.writeUInt32LE(rate, 24);
  wave.writeUInt32LE(rate * 2, 28);
  wave.writeUInt16LE(2, 32);
  wave.writeUInt16LE(16, 34);
  wave.write("data", 36);
  wave.writeUInt32LE(rate * 2, 40);
  return { name: "silence.wav", mimeType: "audio/wav", buffer: wave };
}

test("a recording is transcribed, and its text copied", async () => {
  await openMode("Transcribe");
  await walk("transcribe");
  await tabTo("Recording");
  await chooseFile(silence());
  await tabTo("Language, optional");
  await keyboard.type("en");
  await tabTo("Times of the segments");
  await keyboard.press("Space");
  await tabTo("Transcribe");
  await keyboard.press("Enter");
  await page.getByRole("region", { name: "Transcript" }).waitFor();
  await reach("Copy the transcript");
});

test("texts are embedded, and a vector copied", async () => {
  await openMode("Embed");
  await walk("embed");
  await tabTo("Text 1");
  await keyboard.type("A harbour");
  await tabTo("Add text");
  await keyboard.press("Enter");
  await tabTo("Text 2", "Shift+Tab");
  await keyboard.type("A port");
  await tabTo("Remove text 3");
  await keyboard.press("Enter");
  await page.getByLabel("Text 3", { exact: true }).waitFor({ state: "detached" });
  await tabTo("Embed");
  await keyboard.press("Enter");
  await page.getByRole("region", { name: "Similarity" }).waitFor();
  await reach("Copy vector 2");
});

test("a question is edited, and decisions made", async () => {
  await openMode("Decide");
  await walk("decide");
  await tabTo("Edit refund");
  await keyboard.press("Enter");
  const dialog = page.getByRole("dialog");
  await dialog.waitFor();
  await tabTo("Question");
  await keyboard.press("Control+a");
  await keyboard.type("Is the person angry?");
  await keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
  assert.equal((await focused())?.name, "Edit refund");
  await tabTo(/^Decide/);
  await keyboard.press("Enter");
  await page.getByRole("region", { name: "refund" }).waitFor();
  // The answers have no control: their part of the page takes the focus and scrolls.
  await page.setViewportSize({ width: 1440, height: 480 });
  await keyboard.press("Tab");
  assert.ok(await isInResults(), "the answers are next");
  await keyboard.press("End");
  await page.waitForFunction(() => document.querySelector(".results").scrollTop > 0);
  await page.setViewportSize({ width: 1440, height: 900 });
});

test("a conversation is typed, interrupted and ended", async () => {
  await openMode("Voice");
  await walk("voice");
  await tabTo("Start without a microphone");
  await keyboard.press("Enter");
  await page.getByText("Session started without a microphone.").waitFor();
  assert.equal((await focused())?.name, "Voice", "the heading has the focus of the button that disappeared");
  await tabTo("Message");
  await keyboard.type("The ferry leaves at nine from the northern pier, and returns at eleven from the outer island.");
  await keyboard.press("Enter");
  await page.locator(".vtop .chip").getByText("Speaking").waitFor();
  await tabTo("Transcript");
  await keyboard.press("Space");
  await page.getByText(/^Interrupted after/).waitFor();
  await tabTo("End session");
  await keyboard.press("Enter");
  await page.getByText("Session ended.").waitFor();
  await tabTo("Reconnect");
});

test("a batch is created from lines, and its results downloaded", async () => {
  await openMode("Batch");
  await walk("batch");
  await tabTo("Messages");
  await keyboard.type("One");
  await keyboard.press("Enter");
  await keyboard.type("Two");
  await tabTo("Create batch");
  await keyboard.press("Enter");
  await page.getByText("2 completed, 0 failed").waitFor({ timeout: 30_000 });
  await reach(/^batch_/);
  await reach("Results");
  const [download] = await Promise.all([page.waitForEvent("download"), keyboard.press("Enter")]);
  assert.equal(download.suggestedFilename(), "results.jsonl");
  assert.deepEqual(page.faults, []);
});
