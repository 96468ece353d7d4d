// Writes the screenshots of docs/screenshots: `npm run guide`. Keys, people, chats and calls are
// real; the series of 30 days and the list of calls have sample data.

import { mkdir } from "node:fs/promises";
import { fileURLToPath } from "node:url";

import { becomeOwner, call, openBrowser, send, start } from "./harness.mjs";

const FOLDER = fileURLToPath(new URL("../../docs/screenshots/", import.meta.url));

const DAY_MS = 86_400_000;

const MODELS = [
  { name: "acme/large", cost: 1.9, tokens: 1800 },
  { name: "acme/small", cost: 1.1, tokens: 1200 },
  { name: "acme/vision", cost: 0.6, tokens: 900 },
  { name: "acme/embed", cost: 0.3, tokens: 4000 },
];

/** Returns a number from 0 to 1 that depends only on its seed. */
function random(seed) {
  const value = Math.sin(seed * 127.1) * 43_758.5453;
  return value - Math.floor(value);
}

function totals(requests, cost, tokens) {
  return {
    requests,
    cost: cost.toFixed(6),
    usage: { input_tokens: tokens * 3, output_tokens: tokens, total_tokens: tokens * 4, cache_read_tokens: tokens * 2 },
  };
}

function series(reply, names, params) {
  const from = Date.parse(params.get("from"));
  const days = Math.round((Date.parse(params.get("to")) - from) / DAY_MS);
  const groups = names.map((name, number) => {
    const model = MODELS[number % MODELS.length];
    const points = Array.from({ length: days }, (_, day) => {
      const start = new Date(from + day * DAY_MS);
      const isWeekend = start.getUTCDay() % 6 === 0;
      const level = (isWeekend ? 0.4 : 1) * (0.7 + 0.6 * random(day * 7 + number));
      return { start: start.toISOString(), ...totals(Math.round(420 * level), model.cost * level, Math.round(model.tokens * 90 * level)) };
    });
    const sum = (of) => points.reduce((all, point) => all + of(point), 0);
    const whole = totals(sum((one) => one.requests), sum((one) => Number(one.cost)), sum((one) => one.usage.output_tokens));
    return { group: name, ...whole, points };
  });
  return { ...reply, groups };
}

async function replaceReply(page, pattern, change) {
  await page.route(pattern, async (route) => {
    // The browser would add this header, which a session requires.
    const headers = { ...(await route.request().allHeaders()), "sec-fetch-site": "same-origin" };
    const response = await route.fetch({ headers });
    await route.fulfill({ response, json: change(await response.json(), new URL(route.request().url())) });
  });
}

function useSampleData(page, keys, members) {
  return Promise.all([
    replaceReply(page, "**/usage/series?*", (reply, { searchParams }) => {
      const names = {
        model: MODELS.map((model) => model.name),
        key: keys,
        member: members,
        endpoint: ["/v1/chat/completions", "/v1/messages", "/v1/embeddings"],
      };
      return series(reply, names[searchParams.get("by")] ?? [null], searchParams);
    }),
    replaceReply(page, "**/v1/account/usage?*", (reply) => ({
      ...reply,
      data: rows(reply.data[0], keys).slice(0, 8),
      totals: { ...reply.totals, requests: 48_212, cost: "128.46" },
    })),
    replaceReply(page, "**/console/api/v1/calls?*", (reply) => ({
      ...reply,
      data: [reply.data[0], ...rows(reply.data[0], keys).slice(1)],
      has_more: false,
      next: null,
    })),
  ]);
}

/** Returns calls of the sample models like one call. */
function rows(like, keys) {
  return Array.from({ length: 18 }, (_, number) => {
    const model = MODELS[Math.floor(random(number) * MODELS.length)];
    const input = Math.round(300 + random(number + 50) * 9000);
    const output = model.name === "acme/embed" ? 0 : Math.round(60 + random(number + 90) * 1800);
    return {
      ...like,
      id: number === 0 ? like.id : `${like.id.slice(0, -2)}${String(number).padStart(2, "0")}`,
      created_at: new Date(Date.parse(like.created_at) - number * 4300).toISOString(),
      model: model.name,
      key_id: keys[number % keys.length],
      member_id: null,
      endpoint: model.name === "acme/embed" ? "/v1/embeddings" : number % 3 ? "/v1/chat/completions" : "/v1/messages",
      usage: { ...like.usage, input_tokens: input, output_tokens: output, total_tokens: input + output },
      first_content_ms: Math.round(120 + random(number + 20) * 500),
      cost: ((input * 0.2 + output * model.cost) / 1_000_000).toFixed(6),
      outcome: number === 5 ? "timeout" : "ok",
    };
  });
}

async function shot(page, name) {
  await page.waitForFunction(() => !document.querySelector('.skel, [aria-busy="true"]'));
  await page.mouse.move(0, 0);
  await page.screenshot({ path: `${FOLDER}console-${name}.png` });
}

/** Shows a conversation with an interrupted answer. */
async function talk(page, open) {
  await open("/playground?mode=voice");
  await page.getByRole("button", { name: "Start without a microphone" }).click();
  const message = page.getByRole("textbox", { name: "Message" });
  const answers = page.getByRole("region", { name: "Transcript" }).locator("li").filter({ hasText: /audio out/ });
  const seconds = async () => (await page.locator(".vtop .num").first().textContent()).split(":")[1];
  const say = async (text) => {
    await message.fill(text);
    await message.press("Enter");
  };
  const state = (word) => page.locator(".vtop .chip").getByText(word).waitFor();
  await say("Good morning. When does the ferry leave?");
  await answers.waitFor();
  await state("Ready");
  await say("The ferry leaves at nine from the northern pier. There is one thing to know about the second crossing, which stops at the outer island and may arrive an hour later.");
  await state("Speaking");
  // Four seconds of the answer are heard.
  const start = Number(await seconds());
  await page.waitForFunction((end) => Number(document.querySelector(".vtop .num").textContent.split(":")[1]) >= end, start + 4);
  await page.getByRole("button", { name: /^Interrupt/ }).click();
  await page.getByText(/^Interrupted after/).waitFor();
  await say("Then I take the first one. Please reserve two places.");
  await state("Speaking");
  await page.waitForFunction(() => document.querySelector(".vlog li:last-child")?.textContent.includes("two places"));
  await shot(page, "voice");
  await page.getByRole("button", { name: "End session" }).click();
}

async function write() {
  await mkdir(FOLDER, { recursive: true });
  const server = await start();
  const browser = await openBrowser();
  try {
    const page = await browser.page();
    await becomeOwner(page, server);
    await send(page, "PATCH", "/account", { name: "Acme" });
    const created = [];
    for (const name of ["production", "triage", "search-index", "ci"]) created.push(await send(page, "POST", "/keys", { name }));
    for (const { key } of created) await call(server, key);
    for (const [email, role] of [
      ["sam@example.com", "admin"],
      ["lee@example.com", "member"],
      ["kim@example.com", "billing"],
    ]) {
      await send(page, "POST", "/invitations", { email, role });
    }
    const { data: members } = await send(page, "GET", "/members");
    const open = async (path) => {
      await page.goto(`${server.address}/console${path}`);
      await page.waitForFunction(() => document.querySelector("h1"));
    };

    await open("/playground?new=1");
    await page.getByRole("button", { name: "Add column" }).click();
    await page.locator(".compose textarea").fill("Compare these two refund policies. [[sim tokens=60 reason=4]]");
    await page.keyboard.press("Control+Enter");
    await page.locator(".save.ok").waitFor();
    await shot(page, "playground");
    await talk(page, open);
    await open("/keys");
    await shot(page, "keys");
    await open("/people");
    await shot(page, "people");

    await useSampleData(
      page,
      created.map((one) => one.id),
      members.map((one) => one.id),
    );
    await open("/overview");
    await shot(page, "overview");
    await open("/usage");
    await shot(page, "usage");
    await open("/calls");
    await page.locator(".rowlink").first().click();
    await page.getByText("Price lines").waitFor();
    await shot(page, "calls");

    const operator = await browser.page();
    await operator.goto(server.operatorLink);
    await operator.getByRole("button", { name: "Sign in" }).click();
    await operator.getByRole("heading", { name: "Overview" }).waitFor();
    await shot(operator, "operator");
  } finally {
    await browser.close();
    await server.stop();
  }
}

await write();
