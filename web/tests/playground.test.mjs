import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { becomeOwner, inspect, openBrowser, start } from "./harness.mjs";

let server;
let browser;
let page;
before(async () => {
  server = await start();
  browser = await openBrowser();
  page = await browser.page();
  await becomeOwner(page, server);
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

const message = () => page.locator(".compose textarea");

async function ask(text) {
  await message().fill(text);
  await page.keyboard.press("Control+Enter");
}

async function done(number = 0) {
  await page.getByText("Done", { exact: true }).nth(number).waitFor();
}

async function openMode(mode) {
  await page.goto(`${server.address}/console/playground?mode=${mode}`);
}

function newChat() {
  return page.getByRole("button", { name: "New chat", exact: true }).click();
}

test("output never becomes markup, and links show their host", async () => {
  const requested = [];
  page.on("request", (request) => requested.push(new URL(request.url()).origin));
  await page.getByRole("link", { name: "Playground" }).click();
  await inspect(page, "playground-empty", { isPhone: true });
  const parts = [
    "<img src=x onerror=alert(1)> <script>alert(2)</script>",
    "[x](javascript:alert(3)) [data](data:text/html,x) ![p](http://other.example/p.png)",
    "[report](https://docs.example/a)",
    "# Title\n\n| a | b |\n|---|---|\n| **c** | `d` |\n\n```js\nconst a = 1;\n```",
  ];
  await ask(parts.join("\n\n"));
  await done();
  const answer = page.getByRole("group", { name: /^Answer 1/ });
  await answer.getByText("<img src=x onerror=alert(1)>").waitFor();
  assert.equal(await answer.locator("img, script").count(), 0);
  const links = await answer.getByRole("link").evaluateAll((all) => all.map((one) => [one.href, one.rel, one.textContent]));
  assert.deepEqual(links, [
    ["http://other.example/p.png", "noopener noreferrer", "Image: p (other.example)"],
    ["https://docs.example/a", "noopener noreferrer", "report (docs.example)"],
  ]);
  await answer.getByRole("table").getByRole("cell", { name: "c" }).waitFor();
  assert.deepEqual([...new Set(requested)], [server.address]);
  await inspect(page, "playground-markdown", { isPhone: true });
});

test("a quote comes before the message, and the cost after it", async () => {
  await newChat();
  await message().fill("Say hello.");
  await page.getByText(/^at most 0\.02/).waitFor();
  await page.keyboard.press("Control+Enter");
  await done();
  assert.match(await page.locator(".pcol footer b").textContent(), /^(< )?0\.0000\d\d$/);
});

test("Esc stops an answer, and the part that has arrived stays", async () => {
  await newChat();
  await ask("[[sim tokens=400 pace=20 reason=10]]");
  await page.getByText("the simulator").first().waitFor();
  await page.keyboard.press("Escape");
  await page.getByText("Stopped", { exact: true }).waitFor();
  await page.locator(".think summary").click();
  await page.getByText("first consider").first().waitFor();
  await inspect(page, "playground-stopped");
});

test("a failure names its code and request", async () => {
  await newChat();
  await ask("[[sim error=rate_limit_exceeded]]");
  const failure = page.getByRole("group", { name: "Failure" });
  await failure.getByText("rate_limit_exceeded", { exact: true }).waitFor();
  await failure.getByText(/^req_/).waitFor();
  await inspect(page, "playground-failed", { isPhone: true });
});

test("a model calls a tool, and continues with the pasted result", async () => {
  await newChat();
  await page.getByRole("button", { name: "Add tools" }).click();
  await inspect(page, "playground-tools", { isPhone: true });
  await page.getByRole("button", { name: "Use tools" }).click();
  await ask('Where is it? [[sim tool=lookup_order:{"order":"A-1"}]]');
  await page.getByLabel("Result of lookup_order").fill("It is in the harbour.");
  await page.getByRole("button", { name: "Send result" }).click();
  await done();
  await page.locator(".md").getByText("It is in the harbour.").waitFor();
});

test("structured output is checked against its schema", async () => {
  await newChat();
  await page.getByLabel("Response format").selectOption("json_schema");
  const dialog = page.getByRole("dialog", { name: "Schema of the answer" });
  await dialog.getByLabel("JSON Schema").fill('{"type":"objekt"}');
  await dialog.getByText("Unknown type").waitFor();
  await inspect(page, "playground-schema", { isPhone: true });
  await dialog.getByLabel("JSON Schema").fill('{"type":"object","properties":{"a":{"type":"integer","minimum":3}},"required":["a"]}');
  await dialog.getByRole("button", { name: "Use schema" }).click();
  await ask("Answer.");
  await page.getByText("Matches the schema").waitFor();
});

test("the code contains the very body that was sent, and no key", async () => {
  await page.getByRole("button", { name: "Code" }).click();
  const code = page.getByRole("dialog", { name: "Code" });
  for (const language of ["curl", "Python", "JavaScript"]) {
    await code.getByRole("button", { name: language }).click();
    const text = await code.locator("pre").textContent();
    assert.ok(text.includes("TOLLGATE_API_KEY") && text.includes("Answer.") && text.includes("json_schema"), text);
    assert.ok(!text.includes("sk-service"));
  }
  await inspect(page, "playground-code", { isPhone: true });
  await code.getByRole("button", { name: "Close" }).click();
});

test("an image is part of a message", async () => {
  await newChat();
  const png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII=";
  const file = { name: "<b>.png", mimeType: "image/png", buffer: Buffer.from(png, "base64") };
  await page.setInputFiles(".compose input[type=file]", file);
  await message().fill("What is it?");
  await page.getByRole("button", { name: /^Send/ }).and(page.locator(":enabled")).waitFor();
  await page.keyboard.press("Control+Enter");
  await done();
  await page.getByRole("img", { name: "<b>.png" }).waitFor();
});

test("four columns of 200 tokens a second leave the page responsive", async () => {
  await page.goto(`${server.address}/console/playground?new=1`);
  for (let column = 2; column <= 4; column += 1) await page.getByRole("button", { name: "Add column" }).click();
  await message().fill("[[sim tokens=800 pace=5]]");
  await page.evaluate(() => {
    globalThis.frames = [];
    let last = performance.now();
    const next = (now) => {
      globalThis.frames.push(now - last);
      last = now;
      requestAnimationFrame(next);
    };
    requestAnimationFrame(next);
  });
  await page.keyboard.press("Control+Enter");
  await done(3);
  const frames = await page.evaluate(() => globalThis.frames.toSorted((a, b) => a - b));
  const p95 = frames[Math.floor(frames.length * 0.95)];
  // The budget is 32 ms; machines of checks may be busy.
  assert.ok(p95 < 60, `95 % of the frames are shorter than ${p95} ms`);
});

test("an image job shows its price and progress, and survives a reload", async () => {
  await openMode("image");
  await page.getByLabel("Prompt", { exact: true }).fill("A lighthouse [[sim delay=3000]]");
  await page.getByRole("button", { name: "2", exact: true }).click();
  await page.getByText("2 × 0.01").waitFor();
  await page.getByRole("button", { name: "Generate" }).click();
  await page.getByText("Running", { exact: true }).waitFor();
  await inspect(page, "playground-image-job");
  await page.reload();
  await page.locator(".tiles img").nth(1).waitFor();
  assert.equal(await page.locator(".tiles img").count(), 2);
  await inspect(page, "playground-image", { isPhone: true });
});

test("speech and compositions show their quotes, and whether the balance covers them", async () => {
  await openMode("speech");
  const text = page.getByLabel("Text", { exact: true });
  await text.fill("Hello");
  await page.getByText("5 × 15 a million").waitFor();
  assert.equal(await page.getByText("More than the balance.").count(), 0);
  await page.route("**/console/v1/quote", async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, json: { ...(await response.json()), sufficient: false } });
  });
  await text.fill("Hello!");
  await page.getByText("More than the balance.").waitFor();
  await openMode("compose");
  await page.getByRole("textbox", { name: "Topic" }).fill("The sea");
  await page.getByText(/^at most 0\.0\d+, more than the balance$/).waitFor();
  await page.unroute("**/console/v1/quote");
  await inspect(page, "playground-quotes");
  await page.getByRole("button", { name: "Plan", exact: true }).click();
  const board = page.getByRole("region", { name: "Storyboard" });
  await board.getByText(/^at most 0\.\d+$/).waitFor({ timeout: 30_000 });
});

test("a report shows its steps, and its citations open the quotes in their sources", async () => {
  await openMode("research");
  await inspect(page, "playground-research-form", { isPhone: true });
  await page.getByRole("textbox", { name: "Question" }).fill("[[sim delay=300]] How many people use the ferries of Orsel?");
  await page.getByText(/^At most$/).waitFor();
  await page.getByRole("button", { name: /^Research/ }).click();
  await page.getByRole("list", { name: "Steps" }).getByText(/^(Opened|Read) /).first().waitFor();
  await inspect(page, "playground-research-steps");
  await page.getByRole("article", { name: "Report" }).waitFor({ timeout: 60_000 });
  await inspect(page, "playground-research", { isPhone: true });
  const mark = page.getByRole("button", { name: /^Citation 1:/ }).first();
  await mark.click();
  const dialog = page.getByRole("dialog");
  const quote = await dialog.locator("mark").textContent();
  assert.ok(quote.length >= 20, quote);
  await inspect(page, "playground-research-quote", { isPhone: true });
  await dialog.getByRole("button", { name: "Close", exact: true }).last().click();
  await page.reload();
  await page.getByRole("article", { name: "Report" }).waitFor();
});

test("embeddings are compared", async () => {
  await openMode("embed");
  await page.getByLabel("Text 1", { exact: true }).fill("A harbour");
  await page.getByLabel("Text 2", { exact: true }).fill("A harbour");
  await page.getByText(/^at most/).waitFor();
  await page.getByRole("button", { name: "Embed", exact: true }).click();
  await page.getByRole("cell", { name: "1.000" }).nth(3).waitFor();
  await inspect(page, "playground-embeddings", { isPhone: true });
});

test("decisions show probabilities, confidence and the method", async () => {
  await openMode("decide");
  await page.getByRole("button", { name: /^Decide/ }).click();
  const refund = page.getByRole("region", { name: "refund" });
  await refund.getByText(/^confidence 0\./).waitFor();
  await refund.getByText(/^abstain 0\./).waitFor();
  await page.getByText("native", { exact: true }).waitFor();
  await inspect(page, "playground-decisions", { isPhone: true });
  await page.getByRole("button", { name: "Edit next" }).click();
  await inspect(page, "playground-question", { isPhone: true });
});

test("a batch is created from lines", async () => {
  await openMode("batch");
  await page.getByLabel("Messages").fill("One\nTwo");
  await page.getByRole("button", { name: "Create batch" }).click();
  await page.getByText("2 completed, 0 failed").waitFor({ timeout: 30_000 });
  await inspect(page, "playground-batch", { isPhone: true });
});

for (const mode of ["video", "compose", "speech", "transcribe"]) {
  test(`the form of the mode ${mode} is complete`, async () => {
    await openMode(mode);
    await page.locator(".dform").waitFor();
    await inspect(page, `playground-${mode}`, { isPhone: true });
  });
}
