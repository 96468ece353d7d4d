import assert from "node:assert/strict";
import { after, before, beforeEach, test } from "node:test";

import { becomeOwner, openBrowser, send, start } from "./harness.mjs";
import { ADDRESSES, CORPUS, NAMES } from "./xss-corpus.mjs";

// Each list of the console shows the strings of the corpus where it shows texts of others. Real
// requests put them there where the API accepts them; other lists are answers of the journey.

const SETTINGS = `
[limits]
keys = 1000
files = 1000
`;

/** The corpus in texts of four strings each, for lists that would be too long otherwise. */
const TEXTS = Array.from({ length: Math.ceil(CORPUS.length / 4) }, (_, index) => CORPUS.slice(index * 4, index * 4 + 4).join(" "));

/** Rows of a list that has all texts. */
const ROWS = Math.ceil(TEXTS.length / 2);

let server;
let browser;
let page;
let foreign;
let dialogs;
before(async () => {
  assert.ok(CORPUS.length >= 200);
  server = await start(SETTINGS);
  browser = await openBrowser();
  page = await browser.page();
  foreign = [];
  dialogs = [];
  // In all frames, before their scripts.
  await page.context().addInitScript(() => {
    globalThis.canary = (mark) => {
      top.ran = mark;
    };
  });
  page.context().on("request", (request) => {
    const url = new URL(request.url());
    if (url.protocol !== "data:" && url.protocol !== "blob:" && url.origin !== server.address) foreign.push(url.href);
  });
  page.on("dialog", (dialog) => {
    dialogs.push(dialog.message());
    return dialog.dismiss();
  });
  page.on("popup", (popup) => dialogs.push(`popup ${popup.url()}`));
  await becomeOwner(page, server);
});
beforeEach(() => {
  for (const found of [foreign, dialogs, page.faults]) found.length = 0;
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

/** Elements and attributes that no screen has. The scripts of the page are in its head. */
const FORBIDDEN = [
  "body script, body style, body link, body meta, body base, body title",
  "iframe, frame, frameset, object, embed, applet, portal, template, math, marquee, keygen, xmp, plaintext, listing, isindex",
  "[srcdoc], [formaction], [background], [ping], [http-equiv], [is], form[action], a[name], img[name], x-foo",
  "svg script, svg foreignObject, svg animate, svg set, svg image, svg a, svg style",
].join(",");

/** Asserts that the page has no element of the corpus, and that no part of it ran or was requested. */
async function assertInert(where) {
  const found = await page.evaluate((forbidden) => {
    const name = (element) => element.outerHTML.slice(0, 200);
    const faults = [...document.querySelectorAll(forbidden)].map(name);
    if (document.querySelectorAll("head base, head meta[http-equiv], head style").length > 0) faults.push("head");
    if (document.documentElement.shadowRoot || document.designMode === "on") faults.push("document");
    for (const element of document.querySelectorAll("*")) {
      for (const attribute of element.attributes) if (/^on|^xlink:/i.test(attribute.name)) faults.push(name(element));
      if (element.matches("[src]")) {
        const url = new URL(element.src, location.href);
        const isOwn = url.origin === location.origin || url.protocol === "blob:" || /^data:image\/(png|jpeg|webp|gif)[;,]/.test(url.href);
        if (!isOwn) faults.push(name(element));
      }
      if (element.matches("[style]") && /url\(|expression|behavior|binding/i.test(element.getAttribute("style"))) faults.push(name(element));
      if (!element.matches("a[href], area[href]")) continue;
      const url = new URL(element.href, location.href);
      const isConsole = url.origin === location.origin && url.pathname.startsWith("/console/") && !element.target;
      const relations = new Set(element.rel.split(" "));
      const isExternal = /^https?:$/.test(url.protocol) && element.target === "_blank" && relations.has("noopener") && relations.has("noreferrer");
      const isMail = url.protocol === "mailto:" && element.closest("dialog, main");
      if (!isConsole && !isExternal && !isMail && !element.matches(".skip, [download]")) faults.push(name(element));
    }
    return { faults, ran: globalThis.ran ?? null, frames: globalThis.frames.length };
  }, FORBIDDEN);
  assert.deepEqual(found, { faults: [], ran: null, frames: 0 }, where);
  assert.deepEqual(dialogs, [], where);
  assert.deepEqual(foreign, [], where);
  assert.deepEqual(page.faults, [], where);
  assert.equal(new URL(page.url()).origin, server.address, where);
}

/** Asserts that the page shows strings as text. */
async function assertShown(texts, where) {
  const missing = await page.evaluate((texts) => {
    const content = document.body.textContent;
    return texts.filter((text) => !content.includes(text));
  }, texts);
  assert.deepEqual(missing, [], where);
}

async function open(path) {
  await page.goto(`${server.address}/console${path}`);
  await page.waitForFunction(() => document.querySelector("h1") && !document.querySelector('.skel, [aria-busy="true"]'));
}

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

test("names of keys are text in the list, the dialogs and the audit log", async () => {
  const names = NAMES.filter((_, index) => index % 3 === 0);
  const statuses = await fromPage(names, "key");
  const accepted = names.filter((_, index) => statuses[index] === 200);
  assert.ok(accepted.length >= 100, `${accepted.length} of ${names.length} names were accepted`);
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
  const statuses = await fromPage(addresses.slice(0, 100), "invitation");
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
  const names = NAMES.filter((name) => !/[\\/]/.test(name)).slice(0, 100);
  const statuses = await fromPage(names, "file");
  assert.ok(statuses.filter((status) => status === 200).length >= 50, [...new Set(statuses)].join());
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
  await fromPage(CORPUS.slice(0, 200), "call");
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
    id: `evt_${hex(index)}`,
    kind: one,
    channel: index % 2 ? "webhook" : "mail",
    state: index % 3 ? "failed" : other,
    attempts: 1,
    created_at: AT,
    next_attempt_at: AT,
    last_error: other,
    url: one,
  }));
  await open("/webhooks");
  await assertInert("webhooks");
  await page.unroute("**/console/api/v1/deliveries*");

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

const chatId = () => {
  const time = Date.now().toString(16).padStart(12, "0");
  return `chat_${time}7${hex(Math.floor(Math.random() * 4096)).slice(-3)}8${hex(Math.floor(Math.random() * 2 ** 50)).slice(-15)}`;
};

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
