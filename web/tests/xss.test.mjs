import assert from "node:assert/strict";
import { after, before, beforeEach, test } from "node:test";

import { send } from "./harness.mjs";
import { CORPUS, NAMES } from "./xss-corpus.mjs";
import { openWatched } from "./xss-page.mjs";

// Each list of the console shows the strings of the corpus where it shows texts of others. Real
// requests put them there where the API accepts them; other lists are answers of the journey.

const SETTINGS = `
[limits]
rpm = 10000
keys = 1000
files = 1000
`;

/** The corpus in texts of four strings each, for lists that would be too long otherwise. */
const TEXTS = Array.from({ length: Math.ceil(CORPUS.length / 4) }, (_, index) => CORPUS.slice(index * 4, index * 4 + 4).join(" "));

/** Rows of a list that has all texts. */
const ROWS = Math.ceil(TEXTS.length / 2);

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

/** Answers the requests of an address instead of the server. */
function answer(pattern, json) {
  return page.route(pattern, (route) => route.fulfill({ json }));
}

/** Answers the requests of a list with rows that have two strings each. */
function list(pattern, row) {
  const data = Array.from({ length: ROWS }, (_, index) => row(index, text(index * 2), text(index * 2 + 1)));
  return answer(pattern, { object: "list", data, has_more: false, next: null });
}

function text(index) {
  return TEXTS[index % TEXTS.length];
}

const hex = (index) => index.toString(16).padStart(32, "0");
const AT = "2026-11-01T08:00:00Z";
const SECONDS = 1_793_520_000;
const USAGE = { input_tokens: 1, output_tokens: 1, total_tokens: 2, cache_read_tokens: 0, reasoning_tokens: 0 };

/** Runs the same work for many strings from the page, eight at a time. Returns what `work` returned. */
function fromPage(texts, work) {
  return page.evaluate(
    async ([texts, source]) => {
      const { session } = await (await fetch("/console/api/v1/session", { headers: { "x-tollgate-account": "-" } })).json();
      const account = session.accounts[0].id;
      const call = (method, path, body) =>
        fetch(path, {
          method,
          headers: { "x-tollgate-account": account, ...(body instanceof FormData ? {} : { "content-type": "application/json" }) },
          body: body instanceof FormData ? body : JSON.stringify(body),
        });
      // The policy of the page forbids eval; the functions are few.
      const works = {
        key: (name) => call("POST", "/console/api/v1/keys", { name }),
        invitation: (name) => call("POST", "/console/api/v1/invitations", { email: name, role: "viewer" }),
        file: (name) => {
          const form = new FormData();
          form.set("purpose", "user_data");
          form.set("file", new File(["x"], name));
          return call("POST", "/console/v1/files", form);
        },
        call: (model) => call("POST", "/console/v1/chat/completions", { model, messages: [{ role: "user", content: "x" }] }),
      };
      const waiting = texts.map((text, index) => [text, index]);
      const statuses = [];
      const worker = async () => {
        for (let next = waiting.shift(); next; next = waiting.shift()) {
          const response = await works[source](next[0]);
          await response.text();
          statuses[next[1]] = response.status;
        }
      };
      await Promise.all(Array.from({ length: 8 }, worker));
      return statuses;
    },
    [texts, work],
  );
}

test("an element that a text has made is noticed", async () => {
  for (const [element, attribute, value] of [
    ["a", "href", "javascript:canary(1)"],
    ["a", "href", "https://evil.example/"],
    ["iframe", "name", "x"],
    ["form", "action", "https://evil.example/"],
    ["img", "src", "https://evil.example/a.png"],
  ]) {
    await open("/settings");
    await page.evaluate(
      ([element, attribute, value]) => {
        const made = document.createElement(element);
        made.setAttribute(attribute, value);
        document.querySelector("main").append(made);
      },
      [element, attribute, value],
    );
    await assert.rejects(assertInert("control"), `${element} with ${attribute} is not noticed`);
  }
});

test("names of keys are text in the list, the dialogs and the audit log", async () => {
  // An account may send 600 requests a minute to the console.
  const names = NAMES.filter((_, index) => index % 6 === 0);
  const statuses = await fromPage(names, "key");
  const accepted = names.filter((_, index) => statuses[index] === 200);
  assert.ok(accepted.length >= 50, `${accepted.length} of ${names.length} names were accepted`);
  assert.ok(statuses.every((status) => status === 200 || status === 400 || status === 422), [...new Set(statuses)].join());
  await open("/keys");
  await assertShown(accepted, "keys");
  await assertInert("keys");
  for (const item of ["Rotate", "Revoke"]) {
    await page.getByRole("button", { name: `Actions for ${accepted[0]}`, exact: true }).click();
    await page.getByRole("menuitem", { name: item }).click();
    await page.getByRole("dialog").getByText(accepted[0]).first().waitFor();
    await assertInert(item);
    await page.keyboard.press("Escape");
  }
  await page.getByRole("button", { name: accepted[0], exact: true }).click();
  await page.getByRole("dialog", { name: accepted[0] }).waitFor();
  await assertInert("key");
  await open("/audit");
  for (const index of [0, 7, 14, 21]) {
    await page.locator(".disclose").nth(index).click();
    await page.locator(".diff").waitFor();
    await assertInert("audit");
  }
});

test("names of the account and of the person are text in the frame", async () => {
  const shown = ["<img src=x onerror=canary(1)>", "</title><script>canary(1)</script>", '" onmouseover="canary(1)'];
  for (const name of shown) {
    await send(page, "PATCH", "/account", { name });
    await send(page, "PATCH", "/person", { name });
    await open("/overview");
    await assertShown([name], "account");
    assert.ok((await page.title()).includes(name));
    await page.getByRole("button", { name, exact: true }).click();
    await assertInert(name);
    await open("/settings");
    await assertInert(name);
  }
  const { session } = await send(page, "GET", "/session");
  const others = CORPUS.map((name, index) => ({ id: `acc_${hex(index)}`, name, role: "owner", member_id: "mem_1" }));
  await answer("**/console/api/v1/session", {
    session: { ...session, person: { ...session.person, email: text(0) }, accounts: [...session.accounts, ...others] },
    service: { name: text(1), support: text(2), version: text(3), sends_mail: true },
  });
  await open("/overview");
  await page.getByRole("button", { name: /^Account:/ }).click();
  await assertShown(CORPUS, "accounts");
  await assertInert("accounts");
  await page.keyboard.press("Escape");
  await page.keyboard.press("Control+k");
  // The palette shows the first results, and finds the others.
  for (const name of NAMES.filter((_, index) => index % 40 === 0)) {
    await page.getByRole("combobox").last().fill(name);
    await assertShown([name], "palette");
  }
  await assertInert("palette");
  await page.unroute("**/console/api/v1/session");
  await send(page, "PATCH", "/account", { name: "default" });
  await send(page, "PATCH", "/person", { name: "Jo Okafor" });
});

test("names and addresses of members are text", async () => {
  const addresses = NAMES.filter((name) => !/\s/.test(name)).map((name) => `${name}@x.example`);
  const statuses = await fromPage(addresses.slice(0, 20), "invitation");
  assert.ok(statuses.every((status) => status === 200 || status === 400 || status === 422), [...new Set(statuses)].join());
  await open("/people");
  await assertInert("invitations");
  await list("**/console/api/v1/members", (index, one, other) => ({
    id: `mem_${hex(index)}`,
    email: one,
    name: other,
    role: index % 9 === 8 ? one : "member",
    status: index % 2 ? "active" : "invited",
    created_at: AT,
    invitation_expires_at: AT,
  }));
  await open("/people");
  await assertShown(TEXTS.slice(0, 2), "people");
  await assertInert("people");
  for (const item of ["Change role", "Remove"]) {
    await page.getByRole("button", { name: /^Actions for/ }).nth(1).click();
    await page.getByRole("menuitem", { name: item }).click();
    await page.getByRole("dialog").waitFor();
    await assertInert(item);
    await page.keyboard.press("Escape");
  }
  await page.unroute("**/console/api/v1/members");
});

test("names of files are text in the list, the details and the messages", async () => {
  const names = NAMES.filter((name) => !/[\\/]/.test(name)).filter((_, index) => index % 5 === 0);
  const statuses = await fromPage(names, "file");
  assert.ok(statuses.filter((status) => status === 200).length >= 30, [...new Set(statuses)].join());
  await open("/files");
  await assertInert("files");
  const row = page.getByRole("table").getByRole("link").first();
  const name = await row.textContent();
  await row.click();
  const pane = page.getByRole("region", { name: "Details" });
  await pane.getByText("1 byte").waitFor();
  await assertInert("file");
  await pane.getByRole("button", { name: "Delete" }).click();
  const question = page.getByRole("dialog", { name: `Delete “${name}”?` });
  await question.getByRole("button", { name: "Delete file" }).click();
  await question.waitFor({ state: "detached" });
  await assertInert("file deleted");
  await list("**/console/v1/files?*", (index, one, other) => ({
    id: `file-${hex(index)}`,
    object: "file",
    bytes: 1,
    created_at: SECONDS,
    filename: one,
    purpose: other,
    lines: 1,
  }));
  await open("/files");
  await assertInert("files, rewritten");
  await page.unroute("**/console/v1/files?*");
});

test("models, outcomes and ids of calls are text", async () => {
  await fromPage(NAMES.slice(0, 20), "call");
  await open("/calls");
  await assertInert("calls");
  const row = (index, one, other) => ({
    id: `use_${hex(index)}`,
    request_id: `req_${hex(index)}`,
    created_at: AT,
    model: one,
    requested_model: other,
    upstream_model: other,
    key_id: index % 2 ? null : one,
    member_id: index % 2 ? other : null,
    endpoint: index % 3 ? "/v1/chat/completions" : other,
    usage: USAGE,
    cost: "0.001",
    included: "0",
    refunded: "0",
    outcome: index % 3 === 1 ? one : "ok",
    estimated: false,
    coverage: one,
    plan_name: other,
    price_version: one,
    first_content_ms: 1,
    duration_ms: 2,
    parts: [],
  });
  await list("**/console/api/v1/calls?*", row);
  const line = (one) => ({ class: one, tokens: 1, price: "1", product: "1" });
  await answer(/console\/api\/v1\/calls\/use_/, {
    call: row(1, text(0), text(1)),
    timeline: { accepted_at: AT, first_content_at: AT, ended_at: AT },
    receipt: {
      lines: TEXTS.map((one) => line(one)),
      long_prompt_above: null,
      parts: TEXTS.map((one) => ({ name: one, model: one, lines: [line(one)], cost: "1" })),
      requests: null,
      cost: "1",
      held_credits: "1",
      held_allowance: "0",
      included: "0",
      paid: "1",
      charge: "1",
      refunded: "0",
    },
    transfers: TEXTS.map((one) => ({ leg: one, amount: "1", from: one, to: one, at: AT })),
  });
  await open("/calls");
  await assertShown([text(0), text(2)], "calls");
  await assertInert("calls, rewritten");
  await page.locator(".rowlink").first().click();
  await page.getByRole("heading", { name: "Timeline" }).waitFor();
  await assertShown([text(4)], "call");
  await assertInert("call");
  await open("/overview");
  await assertInert("overview");
  await page.unroute(/console\/api\/v1\/calls\/use_/);
  await page.unroute("**/console/api/v1/calls?*");
});

test("groups of the usage, lots and plans are text", async () => {
  const hour = new Date(Math.floor(Date.now() / 3_600_000) * 3_600_000).toISOString();
  await answer("**/console/api/v1/usage/series?*", {
    groups: TEXTS.map((group) => ({
      group,
      requests: 1,
      cost: "1",
      usage: USAGE,
      points: [{ start: hour, requests: 1, cost: "1", usage: USAGE }],
    })),
  });
  await list("**/console/api/v1/limits", (_, one) => ({ name: one, limit: 1, used: 1 }));
  for (const by of ["model", "key", "member", "endpoint"]) {
    await open(`/usage?range=24h&by=${by}`);
    await assertInert(`usage by ${by}`);
  }
  await page.getByRole("button", { name: "Table" }).click();
  await assertInert("usage as a table");
  await list("**/console/api/v1/lots*", (index, one) => ({
    id: `lot_${hex(index)}`,
    kind: one,
    amount: "1",
    remaining: "1",
    expired: "0",
    withdrawn: "0",
    created_at: AT,
    expires_at: AT,
  }));
  await answer("**/console/api/v1/plans", {
    data: TEXTS.map((name) => ({ name, price: "1", cadence: name, allowance: "1" })),
    subscriptions: TEXTS.map((product) => ({ product, subject: product, state: product, price: "1", cadence: product })),
  });
  await open("/billing");
  await assertInert("billing");
  for (const path of ["usage/series?*", "limits", "lots*", "plans"]) await page.unroute(`**/console/api/v1/${path}`);
});

test("models, templates, webhooks and the audit log are text", async () => {
  await list("**/console/v1/models*", (index, one, other) => ({
    id: `a/${one}`,
    object: "model",
    owned_by: other,
    type: index % 2 ? "chat" : "image",
    display_name: other,
    release_date: "2026-01-01",
    context_window: 1,
    max_output_tokens: 1,
    modalities: { input: ["text", one], output: ["text"] },
    endpoints: ["/v1/chat/completions", other],
    structured_output: "none",
    batch_supported: true,
    pricing: { input: "1", [other]: "1" },
    modes: [one],
    limits: { [one]: other },
    simulated: false,
  }));
  await open("/models");
  await assertInert("models");
  await open(`/models?model=${encodeURIComponent(`a/${text(0)}`)}`);
  await assertShown([text(0)], "model");
  await assertInert("model");
  await page.unroute("**/console/v1/models*");

  await list("**/console/v1/templates*", (index, one, other) => ({
    slug: one,
    type: index % 2 ? "image" : "video",
    title: other,
    description: one,
    category: other,
    version: 1,
    canonical_prompt: one,
    default_subject: other,
    recommended_model: one,
    supported_models: [other],
    default_params: { [one]: other },
  }));
  await open("/templates");
  await assertInert("templates");
  await open(`/templates?template=${encodeURIComponent(text(0))}`);
  await assertInert("template");
  await page.unroute("**/console/v1/templates*");

  await list("**/console/api/v1/deliveries*", (index, one, other) => ({
    id: `job_${hex(index)}`,
    event_id: one,
    job_type: one,
    job_status: other,
    url: one,
    state: index % 3 ? "failed" : other,
    attempts: 1,
    failure: other,
    ended_at: AT,
    due_at: AT,
    delivered_at: AT,
  }));
  await list("**/console/api/v1/alerts/deliveries", (index, one, other) => ({
    id: `ntc_${hex(index)}`,
    channel: index % 2 ? "webhook" : "email",
    address: one,
    state: other,
    attempts: 1,
    failure: other,
    created_at: AT,
    due_at: AT,
  }));
  await open("/webhooks");
  await assertInert("webhooks");
  await page.unroute("**/console/api/v1/deliveries*");
  await page.unroute("**/console/api/v1/alerts/deliveries");

  await list("**/console/api/v1/audit-log*", (index, one, other) => ({
    id: `aud_${hex(index)}`,
    at: AT,
    actor: one,
    role: other,
    action: other,
    object: one,
    before: { [one]: other },
    after: { [other]: one },
    request_id: one,
    outcome: index % 2 ? "done" : other,
  }));
  await open("/audit");
  for (const index of [0, 12, 24, 36, 48]) {
    await page.locator(".disclose").nth(index).click();
    await page.locator(".diff").waitFor();
    await assertInert(`audit ${index}`);
  }
  await page.unroute("**/console/api/v1/audit-log*");
});

test("results of jobs and faults of batches are text, and links of results are safe", async () => {
  const job = (index, one, other) => ({
    id: `job_${hex(index)}`,
    type: ["image", "video", "speech"][index % 3],
    status: index % 2 ? "failed" : "completed",
    model: one,
    progress: 100,
    phase: other,
    queue_position: null,
    created_at: AT,
    started_at: AT,
    completed_at: AT,
    expires_at: null,
    result: null,
    error: index % 2 ? { message: one, code: other, param: one } : null,
    usage: null,
    cost: "1",
    metadata: { [one]: other },
    request_id: other,
  });
  await list("**/console/v1/jobs?*", job);
  await page.route(/console\/v1\/jobs\/[^/]+\/events/, (route) => route.fulfill({ status: 200, contentType: "text/event-stream", body: "" }));
  await answer(/console\/v1\/jobs\/job_[0-9a-f]+$/, {
    ...job(0, text(0), text(1)),
    result: {
      data: CORPUS.map((one, index) => ({ url: one, b64_json: null, mime_type: index % 5 ? null : one, revised_prompt: one })),
      subtitles: { [text(2)]: text(3), vtt: "javascript:canary(1)" },
      storyboard: { scenes: TEXTS.map((one, index) => ({ id: String(index), narration: one, prompt: one })) },
      price: { items: TEXTS.map((one) => ({ name: one, model: one, cost: "1" })), total: text(4) },
    },
  });
  await open("/jobs");
  await assertInert("jobs");
  await open(`/jobs?job=job_${hex(0)}`);
  await page.getByRole("region", { name: "Details" }).or(page.locator(".pane")).first().waitFor();
  await assertInert("job");
  await page.unroute(/console\/v1\/jobs\/job_[0-9a-f]+$/);

  const citation = (one, index) => ({ id: index + 1, source_id: one, url: one, title: one, date: one, quote: one, start: 2, end: 9, match: one, verified: true });
  const source = (one) => ({ id: one, url: one, title: one, author: one, date: one, characters: 9, cited: false, flags: [one] });
  await answer(/console\/v1\/jobs\/job_[0-9a-f]+$/, {
    ...job(0, text(0), text(1)),
    type: "research",
    result: {
      report: TEXTS.map((one, index) => `## ${one}\n\n${one} [${index + 1}]`).join("\n\n"),
      citations: CORPUS.map(citation),
      sources: CORPUS.map(source),
      claims: [],
      stats: { searches: 1, pages: 1, claims: 1, verified: 1, removed: 0 },
      stopped_by: text(2),
      degraded: true,
    },
  });
  await page.route(/console\/v1\/research\/.*\/sources\//, (route) => route.fulfill({ status: 200, contentType: "text/plain", body: TEXTS.join("\n") }));
  await open(`/jobs?job=job_${hex(1)}`);
  await page.getByRole("article", { name: "Report" }).waitFor();
  await assertInert("report");
  await page.getByRole("button", { name: /^Citation 1:/ }).first().click();
  await page.getByRole("dialog").locator("mark").waitFor();
  await assertInert("quote");
  await page.keyboard.press("Escape");
  await page.unroute("**/console/v1/jobs?*");
  await page.unroute(/console\/v1\/jobs\/job_[0-9a-f]+$/);

  const batch = (index, one, other) => ({
    id: `batch_${hex(index)}`,
    object: "batch",
    endpoint: index % 2 ? "/v1/chat/completions" : one,
    model: other,
    errors: { data: TEXTS.map((found, line) => ({ code: found, message: found, line, param: found })) },
    input_file_id: one,
    output_file_id: other,
    error_file_id: one,
    status: index % 3 ? "failed" : other,
    created_at: SECONDS,
    expires_at: SECONDS,
    failed_at: SECONDS,
    request_counts: { total: 1, completed: 0, failed: 1 },
    metadata: { [one]: other },
  });
  await list("**/console/v1/batches?*", batch);
  await answer(/console\/v1\/batches\/batch_/, batch(1, text(0), text(1)));
  await open("/batches");
  await assertInert("batches");
  await open(`/batches?batch=batch_${hex(1)}`);
  await page.getByRole("table", { name: "Faults" }).waitFor();
  await assertInert("batch");
  await page.unroute("**/console/v1/batches?*");
  await page.unroute(/console\/v1\/batches\/batch_/);

  await open("/batches?create=1");
  const lines = CORPUS.flatMap((custom_id) => [
    JSON.stringify({ custom_id, method: custom_id, url: custom_id, body: { model: custom_id } }),
    custom_id.replaceAll("\n", " "),
  ]);
  const file = { name: NAMES[0], mimeType: "application/jsonl", buffer: Buffer.from(lines.join("\n")) };
  await page.getByRole("dialog").getByLabel("File", { exact: true }).setInputFiles(file);
  await page.getByRole("dialog").getByText(/\d+ faults/).first().waitFor();
  await assertInert("faults before the upload");
});

test("errors of the server are text", async () => {
  for (const [path, api] of [
    ["/keys", "keys"],
    ["/people", "members"],
    ["/calls", "calls?*"],
    ["/audit", "audit-log*"],
  ]) {
    const message = CORPUS.join(" ").slice(0, 20_000);
    const json = { error: { message, type: "server_error", code: text(0), param: text(1) } };
    await page.route(`**/console/api/v1/${api}`, (route) => route.fulfill({ status: 500, json, headers: { "x-request-id": "<img src=x onerror=canary(1)>" } }));
    await open(path);
    await page.getByRole("main").getByText("onerror=canary(1)").first().waitFor();
    await assertInert(path);
    await page.unroute(`**/console/api/v1/${api}`);
  }
});

