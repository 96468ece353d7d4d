// Conversations with a voice model, whose microphone is a file with the simulator's speech.

import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, beforeEach, test } from "node:test";

import { becomeOwner, inspect, openBrowser, send, start } from "./harness.mjs";

const RATE = 24_000;

/** A voice model whose answers the credits of the first start do not cover. */
const EXPENSIVE = `[models."tidal/expensive"]
voice = { hear = "sim/transcribe", think = "sim/chat", speak = "sim/speech", voice = "alloy" }
prices = { input = "1000", output = "100000", input_audio = "1000", output_audio = "100000" }
`;

/**
 * What the simulator understands. Its speech contains its text in the lowest bits of the samples,
 * which do not always survive the microphone.
 */
const WORDS = /Good morning\.|simulated transcription of \d/;

/** An answer of more than half a minute. */
const LONG = Array.from({ length: 12 }, (_, at) => `The ferry number ${at + 1} leaves the harbour of Orsel in the morning.`).join(" ");

let server;
let browser;
let page;
let folder;
before(async () => {
  server = await start(EXPENSIVE);
  folder = await mkdtemp(join(tmpdir(), "tollgate-voice-"));
  // The first page needs no microphone, but creates the key that speaks into the next one.
  const first = await openBrowser();
  const signedIn = await first.page();
  await becomeOwner(signedIn, server);
  const { key } = await send(signedIn, "POST", "/keys", { name: "speech" });
  const microphone = join(folder, "microphone.wav");
  await writeFile(microphone, wave(await speech(key, "Good morning. The ferry leaves at nine."), 3));
  const state = await signedIn.context().storageState();
  await first.close();
  browser = await openBrowser(["--use-fake-device-for-media-stream", `--use-file-for-fake-audio-capture=${microphone}`]);
  page = await open({ storageState: state, permissions: ["microphone"] });
});
after(async () => {
  await browser?.close();
  await server?.stop();
  await rm(folder, { recursive: true, force: true });
});

/** Opens a page, and records the events that it sends and receives. */
async function open(options, from = browser) {
  const opened = await from.page(options);
  opened.events = [];
  opened.on("websocket", (socket) => {
    const record = (side) => ({ payload }) => opened.events.push({ side, at: Date.now(), ...JSON.parse(payload) });
    socket.on("framesent", record("sent"));
    socket.on("framereceived", record("received"));
  });
  return opened;
}

async function speech(key, input) {
  const response = await fetch(`${server.address}/v1/audio/speech`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify({ model: "sim/speech", voice: "alloy", input, response_format: "pcm" }),
  });
  assert.equal(response.status, 200);
  return Buffer.from(await response.arrayBuffer());
}

/** Returns PCM as a WAV file, with seconds of silence before it. The browser repeats the file. */
function wave(samples, silence) {
  const data = Buffer.concat([Buffer.alloc(silence * RATE * 2), samples]);
  const header = Buffer.alloc(44);
  header.write("RIFF", 0);
  header.writeUInt32LE(36 + data.length, 4);
  header.write("WAVEfmt ", 8);
  header.writeUInt32LE(16, 16);
  header.writeUInt16LE(1, 20);
  header.writeUInt16LE(1, 22);
  header.writeUInt32LE(RATE, 24);
  header.writeUInt32LE(RATE * 2, 28);
  header.writeUInt16LE(2, 32);
  header.writeUInt16LE(16, 34);
  header.write("data", 36);
  header.writeUInt32LE(data.length, 40);
  return Buffer.concat([header, data]);
}

async function openMode(on = page) {
  await on.goto(`${server.address}/console/playground?mode=voice`);
  await on.getByRole("complementary", { name: "Session" }).waitFor();
}

/** The fields of the session, which a phone folds. */
const settings = (on = page) => on.getByRole("complementary", { name: "Session" });
const transcript = (on = page) => on.getByRole("region", { name: "Transcript" });
const state = (word, on = page) => on.locator(".vtop .chip").getByText(word, { exact: true }).waitFor();
const button = (name, on = page) => on.getByRole("button", { name, exact: typeof name === "string" });
const has = (side, type, on = page) => on.events.some((event) => event.side === side && event.type === type);

async function until(condition, what) {
  const deadline = Date.now() + 30_000;
  while (!condition()) {
    assert.ok(Date.now() < deadline, what);
    await new Promise((done) => setTimeout(done, 20));
  }
}

async function begin(name, on = page) {
  await button(name, on).click();
  await transcript(on).getByText(/^Session started/).waitFor();
}

async function write(text, on = page) {
  await on.getByRole("textbox", { name: "Message" }).fill(text);
  await button("Send", on).click();
}

beforeEach(async () => {
  await openMode();
  page.events.length = 0;
  // The file has no echo. The filters of the browser would treat its speech as noise.
  await settings().getByText("Remove echo and noise").click();
});

test("a spoken turn has a spoken answer, with its words and its cost", async () => {
  await inspect(page, "voice-start", { isPhone: true });
  await begin("Start talking");
  const answered = transcript().locator("li").filter({ hasText: /audio out/ });
  await answered.first().waitFor({ timeout: 60_000 });
  await until(() => has("received", "response.done"), "an answer");
  assert.ok(has("sent", "input_audio_buffer.append"));
  assert.ok(has("received", "input_audio_buffer.speech_started"));
  const heard = transcript().locator("li").filter({ hasText: WORDS });
  assert.ok((await heard.count()) >= 2, "the words of both sides");
  const { response } = page.events.find((event) => event.type === "response.done");
  assert.match(response.usage.cost, /^0\.\d+$/);
  const cost = await answered.first().locator("p.num").getAttribute("title");
  assert.equal(Number(cost), Number(response.usage.cost));
  const total = settings().getByRole("region", { name: "Cost so far" });
  await total.getByText("Charge").waitFor();
  assert.ok(Number(await total.locator(".sum span[title]").getAttribute("title")) >= Number(response.usage.cost));
  await page.getByText(/^reply after/).waitFor();
  await button(/^Mute/).click();
  await state("Muted");
  await inspect(page, "voice-spoken", { isPhone: true });
  await button("End session").click();
  await transcript().getByText("Session ended.").waitFor();
  assert.deepEqual(page.faults, []);
});

test("a typed message is answered, and the button interrupts the answer", async () => {
  await begin("Start talking");
  await button(/^Mute/).click();
  await write(LONG);
  await state("Speaking");
  await until(() => page.events.filter((event) => event.type === "response.output_audio.delta").length > 5, "audio");
  await page.keyboard.press("Tab");
  await button(/^Interrupt/).click();
  await transcript().getByText(/^Interrupted after \d+\.\d s\. The struck words were not heard\.$/).waitFor();
  await state("Muted");
  const line = transcript().locator("li").filter({ hasText: "Interrupted after" }).locator("p").first();
  const [said, cut] = [await line.textContent(), await line.locator("del").textContent()];
  assert.ok(LONG.startsWith(said.trim()), said);
  assert.ok(cut.trim() && said.endsWith(cut), cut);
  const { audio_end_ms } = page.events.find((event) => event.side === "sent" && event.type === "conversation.item.truncate");
  const { response } = page.events.find((event) => event.type === "response.done");
  assert.equal(response.status, "cancelled");
  // Only what was delivered is charged: 20 tokens for a second.
  assert.ok(response.usage.output_token_details.audio_tokens < 20 * 30);
  assert.ok(audio_end_ms > 0 && audio_end_ms <= (response.usage.output_token_details.audio_tokens + 1) * 50, `${audio_end_ms}`);
  await inspect(page, "voice-interrupted", { isPhone: true });
  await write("And the next one?");
  await transcript().locator("li").filter({ hasText: /audio out/ }).nth(1).waitFor();
  assert.deepEqual(page.faults, []);
});

test("speaking interrupts an answer", async () => {
  await begin("Start talking");
  await write(LONG);
  const answer = transcript().locator("li").filter({ hasText: "Interrupted after" });
  await answer.filter({ hasText: "The ferry number 1" }).waitFor({ timeout: 60_000 });
  assert.ok(has("received", "input_audio_buffer.speech_started"));
  assert.ok(has("received", "conversation.item.retrieved"));
  assert.deepEqual(page.faults, []);
});

test("without turn detection, a held button records", async () => {
  await settings().getByText("Push to talk").click();
  await begin("Start talking");
  await state("Ready");
  const hold = page.getByRole("button", { name: /Hold to talk|Release to send/ });
  const appended = () => page.events.filter((event) => event.type === "input_audio_buffer.append").length;
  assert.equal(appended(), 0, "nothing is sent before");
  await hold.hover();
  await page.mouse.down();
  await state("Listening");
  // The file begins with three seconds of silence.
  await until(() => appended() > 120, "audio of five seconds");
  await page.mouse.up();
  await until(() => has("sent", "input_audio_buffer.commit") && has("received", "response.done"), "an answer");
  const after = appended();
  await transcript().locator("li").filter({ hasText: /audio out/ }).first().waitFor();
  assert.equal(appended(), after, "nothing is sent afterwards");
  // The space bar records as well; a short press is dropped.
  page.events.length = 0;
  await page.locator("h1").click();
  await page.keyboard.press("Space");
  await until(() => has("received", "input_audio_buffer.cleared"), "the recording was dropped");
  assert.deepEqual(page.faults, []);
});

test("an answer beyond the credits is refused in plain words", async () => {
  await settings().getByLabel("Model").selectOption("tidal/expensive");
  await begin("Start talking");
  await button(/^Mute/).click();
  await write("Good morning.");
  const failure = page.getByRole("alert").filter({ hasText: "The credits do not cover an answer." });
  await failure.getByText("insufficient_credits", { exact: true }).waitFor();
  await failure.getByText(/^req_/).waitFor();
  await failure.getByRole("link", { name: "Billing" }).waitFor();
  await inspect(page, "voice-credits", { isPhone: true });
  await button("New session").click();
  await settings().getByLabel("Model").selectOption("sim/voice");
  await settings().getByLabel("Maximum cost, optional").fill("0.000001");
  await begin("Start talking");
  await button(/^Mute/).click();
  await write("Good morning.");
  const limited = page.getByRole("alert").filter({ hasText: "The maximum cost of the session does not cover an answer." });
  await limited.getByText("Start another session with a higher maximum cost.").waitFor();
});

test("a lost connection is explained, and continues with the same words", async () => {
  await begin("Start talking");
  await button(/^Mute/).click();
  await write("Good morning.");
  await transcript().locator("li").filter({ hasText: /audio out/ }).waitFor();
  page.events.length = 0;
  await server.kill();
  await page.getByRole("alert").filter({ hasText: "The connection was lost." }).waitFor();
  await state("Ended");
  await server.restart();
  // The browser reports its failed requests in this time.
  page.faults.length = 0;
  await button("Reconnect").click();
  await transcript().getByText("Session continued.").waitFor();
  const restored = page.events.filter((event) => event.side === "sent" && event.type === "conversation.item.create");
  assert.deepEqual(
    restored.map(({ item }) => [item.role, item.content[0].text]),
    [
      ["user", "Good morning."],
      ["assistant", "Good morning."],
    ],
  );
  await button(/^Mute/).click();
  await write("Good evening.");
  await transcript().locator("li").filter({ hasText: /audio out/ }).nth(1).waitFor();
});

test("speech is transcribed while it lasts", async () => {
  await settings().getByText("Transcription", { exact: true }).click();
  await begin("Start transcription");
  const line = transcript().locator("li").filter({ hasText: WORDS });
  await line.locator("p.num").first().waitFor({ timeout: 60_000 });
  const done = page.events.find((event) => event.type === "conversation.item.input_audio_transcription.completed");
  assert.ok(done.usage.seconds > 1 && Number(done.usage.cost) > 0);
  await button(/^Mute/).click();
  await state("Muted");
  // Nothing is sent while the microphone is muted, because all audio is charged.
  page.events.length = 0;
  await inspect(page, "voice-transcription", { isPhone: true });
  assert.ok(!has("sent", "input_audio_buffer.append"));
  await page.getByRole("tab", { name: "Speech" }).click();
  await page.getByRole("heading", { name: "Speech" }).waitFor();
  await page.getByRole("tab", { name: "Voice" }).click();
  await transcript().getByText("Session ended.").waitFor();
});

test("a refused microphone is explained, and the conversation continues by typing", async () => {
  const refused = await open({ storageState: await page.context().storageState() });
  await openMode(refused);
  await button("Start talking", refused).click();
  const failure = refused.getByRole("alert").filter({ hasText: "The microphone is off." });
  await failure.getByText(/does not allow the microphone on this page/).waitFor();
  await inspect(refused, "voice-refused", { isPhone: true });
  await failure.getByRole("button", { name: "Continue by typing" }).click();
  await transcript(refused).getByText("Session started without a microphone.").waitFor();
  await write("Good morning.", refused);
  await transcript(refused).locator("li").filter({ hasText: /audio out/ }).waitFor();
  assert.ok(!has("sent", "input_audio_buffer.append", refused));
  await refused.context().close();
});

test("a missing microphone is explained", async () => {
  const silent = await openBrowser();
  try {
    const opened = await open({ storageState: await page.context().storageState(), permissions: ["microphone"] }, silent);
    await openMode(opened);
    await button("Start talking", opened).click();
    await opened.getByRole("alert").getByText("No microphone was found.").waitFor();
  } finally {
    await silent.close();
  }
});
