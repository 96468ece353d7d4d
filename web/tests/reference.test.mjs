import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { becomeOwner, inspect, openBrowser, start } from "./harness.mjs";

let server;
let browser;
let page;
before(async () => {
  server = await start('[service]\nsupport = "support@example.com"\n');
  browser = await openBrowser();
  page = await browser.page({ permissions: ["clipboard-read", "clipboard-write"] });
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

/** Opens a page of the reference, and waits for its heading. */
async function open(path, heading) {
  await page.goto(`${server.address}/docs${path}`);
  await page.getByRole("heading", { level: 1, name: heading }).waitFor();
}

test("the introduction leads to every family of operations", async () => {
  await open("", "API reference");
  await page.getByRole("link", { name: "support@example.com" }).waitFor();
  await inspect(page, "docs", { isPhone: true });
  const document = await (await fetch(`${server.address}/openapi.json`)).json();
  const operations = Object.values(document.paths).flatMap((item) => Object.values(item));
  const families = new Set(operations.map((one) => one.tags[0]));
  const main = page.getByRole("main");
  for (const family of families) await main.getByRole("link", { name: family }).first().waitFor();
  await main.getByRole("link", { name: /^Decisions/ }).click();
  await page.getByRole("heading", { level: 1, name: "Decisions" }).waitFor();
  await page.getByText("/v1/decisions/calibrations/{calibration_id}").first().waitFor();
  await inspect(page, "docs-family", { isPhone: true });
});

test("an operation has fields, recorded responses, errors and guides", async () => {
  await open("/operations/create_chat_completion", "POST /v1/chat/completions");
  const examples = page.getByRole("complementary", { name: "Examples" });
  await examples.getByText('"chat.completion"').waitFor();
  assert.equal(await page.locator("#body-messages-role").count(), 0);
  await page.getByRole("button", { name: "Fields of messages", exact: true }).click();
  await page.locator("#body-messages-role").waitFor();
  await inspect(page, "docs-operation", { isPhone: true });

  await examples.getByRole("button", { name: "Stream" }).click();
  await examples.getByText("[DONE]").waitFor();
  await examples.getByRole("button", { name: "Python" }).click();
  await examples.getByRole("button", { name: "OpenAI client" }).click();
  const request = examples.locator("pre").first();
  const python = await request.textContent();
  assert.ok(python.includes(`base_url="${server.address}/v1"`) && python.includes("stream=True"), python);
  await examples.getByRole("button", { name: "Copy" }).first().click();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), python);
  await examples.getByRole("button", { name: "TypeScript" }).click();
  await examples.getByRole("button", { name: "HTTP" }).click();
  assert.match(await request.textContent(), /await fetch\(/);

  await page.getByRole("link", { name: "insufficient_credits" }).click();
  await page.getByRole("heading", { level: 1, name: "insufficient_credits" }).waitFor();
  await page.getByRole("heading", { name: "What to do" }).waitFor();
  await inspect(page, "docs-error", { isPhone: true });
});

test("addresses name operations and fields, also those of earlier versions", async () => {
  await open("/operations/create_chat_completion#body-messages-tool_calls", "POST /v1/chat/completions");
  await page.locator("#body-messages-tool_calls").waitFor();
  await open("#create_embeddings", "POST /v1/embeddings");
  // An alias shows its operation.
  await open("/operations/create_decisions_systemone", "POST /v1/decisions");
  await page.getByText("/v1/systemone").first().waitFor();
  await open("/operations/nothing", "Not found");
  await inspect(page, "docs-not-found");
});

test("guides link to each other and to the error pages", async () => {
  await open("/guides", "Guides");
  await inspect(page, "docs-guides", { isPhone: true });
  await page.getByRole("main").getByRole("link", { name: /^Embeddings/ }).click();
  await page.getByRole("heading", { level: 1, name: "Embeddings" }).waitFor();
  await page.getByRole("heading", { level: 2, name: "Parameters" }).waitFor();
  await inspect(page, "docs-guide", { isPhone: true });
  await page.getByRole("main").getByRole("link", { name: "unsupported_endpoint" }).first().click();
  await page.getByRole("heading", { level: 1, name: "unsupported_endpoint" }).waitFor();
  await page.getByRole("navigation", { name: "Place" }).getByRole("link", { name: "Errors" }).click();
  await page.getByRole("link", { name: "invalid_json", exact: true }).waitFor();
  await inspect(page, "docs-errors", { isPhone: true });
});

test("every guide of the navigation exists, and no link within the documentation is broken", async () => {
  const index = await (await fetch(`${server.address}/docs/guides.json`)).json();
  const names = new Set(index.map((guide) => guide.name));
  await open("", "API reference");
  const links = async () =>
    page.evaluate(() => [...document.querySelectorAll('a[href*="/docs/guides/"]')].map((link) => link.getAttribute("href")));
  const navigation = page.getByRole("navigation", { name: "Main" });
  for (const group of await navigation.locator(".fold.label").all()) await group.click();
  for (const link of await links()) {
    assert.ok(names.has(link.split("/").at(-1).split("#")[0]), link);
  }
  for (const { name, title } of index) {
    await open(`/guides/${name}`, title);
    await page.locator(".guide").waitFor();
    for (const link of await page.locator('.guide a[href^="/docs/"], .guide a[href^="#"]').all()) {
      const target = await link.getAttribute("href");
      const [path, fragment] = target.split("#");
      if (path.startsWith("/docs/guides/")) assert.ok(names.has(path.split("/").at(-1)), `${name}: ${target}`);
      if (path === "") {
        const isThere = await page.evaluate((id) => document.getElementById(id) !== null, fragment);
        assert.ok(isThere, `${name}: ${target}`);
      }
    }
  }
});

test("the search finds operations by their fields, and guides by their sections", async () => {
  await open("", "API reference");
  const { keyboard } = page;
  await keyboard.press("/");
  await page.getByRole("combobox").waitFor();
  await keyboard.type("dimensions");
  await inspect(page, "docs-search", { isPhone: true });
  await page.getByRole("option", { name: /POST \/v1\/embeddings/ }).waitFor();
  await keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: "POST /v1/embeddings" }).waitFor();
  await keyboard.press("/");
  await keyboard.type("authentication headers");
  await keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: "Keys" }).waitFor();
  await page.waitForFunction(() => document.getElementById("authentication-headers")?.getBoundingClientRect().top < innerHeight);
});

test("a request needs a session, and then has the answer of the gateway", async () => {
  await open("/operations/create_chat_completion", "POST /v1/chat/completions");
  await page.getByRole("button", { name: "Try it" }).click();
  const note = page.getByRole("dialog", { name: "Sign in to try it" });
  await note.getByRole("link", { name: "Sign in" }).waitFor();
  await inspect(page, "docs-try-signed-out", { isPhone: true });
  await note.getByRole("button", { name: "Close" }).click();

  await becomeOwner(page, server);
  await open("/operations/create_chat_completion", "POST /v1/chat/completions");
  const dialog = page.getByRole("dialog", { name: "Try it" });
  await page.getByRole("button", { name: "Try it" }).click();
  await dialog.getByLabel("Body").fill("{");
  await dialog.getByRole("button", { name: "Send" }).click();
  await dialog.getByText("This is not JSON").waitFor();
  const body = { model: "sim/chat", messages: [{ role: "user", content: "<img src=x onerror=alert(1)>" }] };
  await dialog.getByLabel("Body").fill(JSON.stringify(body));
  await dialog.getByRole("button", { name: "Send" }).click();
  await dialog.getByText("onerror=alert(1)").last().waitFor();
  await dialog.getByText("x-tollgate-cost").waitFor();
  await inspect(page, "docs-try", { isPhone: true });
  await dialog.getByLabel("Body").fill(JSON.stringify({ model: "sim/nothing", messages: [] }));
  await dialog.getByRole("button", { name: "Send" }).click();
  await dialog.getByText(/"code": "\w+"/).waitFor();
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });

  await open("/operations/create_speech", "POST /v1/audio/speech");
  await page.getByRole("button", { name: "Try it" }).click();
  await dialog.getByRole("button", { name: "Send" }).click();
  await dialog.locator("audio").waitFor();
  assert.deepEqual(page.faults, []);
});

test("administrators try operations of the admin API", async () => {
  const operator = await browser.page();
  await operator.goto(server.operatorLink);
  await operator.getByRole("button", { name: "Sign in" }).click();
  await operator.getByRole("heading", { name: "Overview" }).waitFor();
  await operator.goto(`${new URL(server.operatorLink).origin}/admin/docs/families/accounts`);
  await operator.getByRole("link", { name: "/admin/v1/accounts", exact: true }).first().click();
  await operator.getByRole("heading", { level: 1, name: "GET /admin/v1/accounts" }).waitFor();
  await inspect(operator, "docs-admin", { isPhone: true });
  await operator.getByRole("button", { name: "Try it" }).click();
  const dialog = operator.getByRole("dialog", { name: "Try it" });
  await dialog.getByRole("button", { name: "Send" }).click();
  await dialog.getByText('"default"').waitFor();
  assert.deepEqual(operator.faults, []);
});
