import assert from "node:assert/strict";
import { after, before, beforeEach, test } from "node:test";

import { send } from "./harness.mjs";
import { ADDRESSES, CORPUS, NAMES } from "./xss-corpus.mjs";
import { openWatched } from "./xss-page.mjs";

// Addresses, messages and answers: the strings of the corpus as a person or a model writes them.

const SETTINGS = `
[limits]
rpm = 10000
`;

let watched;
let page;
let assertInert;
let assertShown;
let open;
before(async () => {
  watched = await openWatched(SETTINGS);
  ({ page, assertInert, assertShown, open } = watched);
});
beforeEach(() => watched.reset());
after(() => watched?.close());

test("addresses of the console are text", async () => {
  const names = ["next", "model", "key", "member", "outcome", "endpoint", "request", "search", "job", "file", "batch", "template", "chat", "mode", "range", "show"];
  const paths = ["/calls", "/models", "/jobs", "/files", "/playground", "/templates", "/sign-in"];
  const short = CORPUS.filter((one) => one.length < 200);
  await open("/overview");
  for (const [index, path] of paths.entries()) {
    for (let at = index; at < short.length; at += paths.length * 24) {
      const query = new URLSearchParams(names.map((name, offset) => [name, short[(at + offset) % short.length]]));
      await page.evaluate((address) => {
        history.pushState(null, "", address);
        dispatchEvent(new PopStateEvent("popstate"));
      }, `/console${path}?${query}`);
      await page.waitForTimeout(20);
    }
    await assertInert(path);
  }
  // A return address outside the console leads to the overview.
  for (const next of ADDRESSES) {
    await page.evaluate((next) => {
      history.pushState(null, "", `/console/sign-in?next=${encodeURIComponent(next.toWellFormed())}`);
      dispatchEvent(new PopStateEvent("popstate"));
    }, next);
  }
  await page.waitForFunction(() => !location.pathname.endsWith("/sign-in"));
  await assertInert("next");
  for (const name of CORPUS.slice(0, 3)) {
    await open(`/${encodeURIComponent(name)}`);
    await assertInert(name);
  }
});

const hex = (number, length) => number.toString(16).padStart(length, "0");

function chatId() {
  const random = crypto.getRandomValues(new Uint16Array(5));
  return `chat_${hex(Date.now(), 12)}7${hex(random[0] % 4096, 3)}8${hex(random[1] % 4096, 3)}${[...random.slice(2)].map((one) => hex(one, 4)).join("")}`;
}

test("saved chats are text: titles, messages, answers, tools and reasoning", async () => {
  const title = NAMES.find((name) => name.includes("<svg"));
  const step = (content, other) => ({
    reasoning: other,
    content,
    tools: [{ id: "t", name: other, arguments: JSON.stringify({ [other]: content }), result: content }],
    finish: "stop",
    request_id: other,
    usage: null,
    cost: null,
    first_ms: 1,
    reasoning_ms: 1,
    duration_ms: 2,
  });
  const well = CORPUS.filter((one) => one.isWellFormed() && !one.includes("\u0000"));
  const answer = (content, other) => ({
    model: other.slice(0, 60),
    content,
    status: "failed",
    request_id: null,
    usage: null,
    cost: null,
    steps: [step(content, other)],
    error: { message: content, code: other },
  });
  const size = 60;
  for (let from = 0; from < well.length; from += size) {
    const id = chatId();
    const turns = well.slice(from, from + size).map((one) => ({
      input: { content: one, files: { [one]: one } },
      answers: [answer(one, one), answer(`[a](https://x.example/) ${one}\n\n| a |\n|---|\n| ${one} |\n\n- ${one}\n\n> ${one}`, one)],
    }));
    await send(page, "PUT", `/chats/${id}`, { base_revision: 0, from: 0, turns, kind: "chat", title, settings: { models: [title], system: title } });
    await open(`/playground?chat=${id}`);
    await page.getByRole("article", { name: `Turn ${turns.length}`, exact: true }).waitFor();
    if (from === 0) {
      await page.evaluate(() => {
        for (const one of document.querySelectorAll("details")) one.open = true;
      });
      assert.ok((await page.title()).includes(title));
    }
    await assertInert(`chat ${from}`);
  }
  await open("/chats");
  await assertShown([title], "chats");
  await assertInert("chats");
});

test("streamed answers are text while they grow", async () => {
  await open("/playground?new=1");
  await page.getByRole("button", { name: "Add column" }).click();
  const lines = CORPUS.filter((one) => one.length < 200 && !one.includes("[["));
  for (const part of [lines.slice(0, lines.length / 2), lines.slice(lines.length / 2)]) {
    await page.locator(".compose textarea").fill(part.join("\n\n"));
    await page.keyboard.press("Control+Enter");
    await page.locator(".compose button[type=submit]").waitFor();
    await page.locator(".save.ok").waitFor();
    await assertInert("stream");
  }
  assert.equal(await page.locator(".pcol").count(), 4);
  await page.getByRole("button", { name: "Code" }).click();
  await page.getByRole("dialog", { name: "Code" }).waitFor();
  await assertInert("code");
});
