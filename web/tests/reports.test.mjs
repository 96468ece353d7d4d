import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, before, test } from "node:test";

import { becomeOwner, inspect, openBrowser, start } from "./harness.mjs";

const SENTENCE = "Ferries to Lorn sail on 212 days of the year.";
const OTHER = "The fare is 7 euros for each passenger.";

let provider;
let server;
let browser;
let page;
before(async () => {
  provider = createServer(answer);
  await new Promise((done) => provider.listen(0, "127.0.0.1", done));
  const address = `127.0.0.1:${provider.address().port}`;
  process.env.REPORT_KEY = "sk-reports";
  server = await start(
    `[egress]\nallow = ["${address}"]\n[providers.openai]\nbase_url = "http://${address}/v1"\napi_key_env = "REPORT_KEY"\n`,
  );
  browser = await openBrowser();
  page = await browser.page();
  await becomeOwner(page, server);
});
after(async () => {
  await browser?.close();
  await server?.stop();
  provider?.close();
});

/** Answers as OpenAI's background responses, and as the site of a page that the report cites. */
function answer(request, response) {
  const send = (status, type, body) => response.writeHead(status, { "content-type": type }).end(body);
  const json = (body) => send(200, "application/json", JSON.stringify(body));
  if (request.url === "/ferry") {
    return send(200, "text/html", `<article><p>The harbour of Lorn is old. ${SENTENCE} The fare is 5 euros.</p></article>`);
  }
  if (request.url === "/v1/models") return json({ object: "list", data: [] });
  if (request.url !== "/v1/responses" && request.url !== "/v1/responses/resp_1") return send(404, "text/plain", "none");
  if (request.method === "POST") return json({ id: "resp_1", status: "queued", output: [] });
  const link = `([Ferries](http://${request.headers.host}/ferry))`;
  const text = `# Ferries to Lorn\n\n- **${SENTENCE}** ${link}\n- ${OTHER} ${link}\n\n| Port | Days |\n|---|---|\n| Lorn | 212 |\n`;
  const annotations = [text.indexOf(link), text.lastIndexOf(link)].map((start) => ({
    type: "url_citation",
    start_index: start,
    end_index: start + link.length,
    url: `http://${request.headers.host}/ferry`,
    title: "Ferries",
  }));
  json({
    id: "resp_1",
    object: "response",
    status: "completed",
    output: [{ type: "message", role: "assistant", content: [{ type: "output_text", text, annotations }] }],
    usage: { input_tokens: 100, output_tokens: 50 },
  });
}

test("citations of a provider's report are verified, or show that they are not", async () => {
  await page.goto(`${server.address}/console/playground?mode=research`);
  await page.getByRole("combobox", { name: "Model" }).selectOption("openai/o4-mini-deep-research");
  await page.getByRole("textbox", { name: "Question" }).fill("When does the ferry to Lorn sail?");
  await page.getByText(/^At most$/).waitFor();
  await page.getByRole("button", { name: /^Research/ }).click();
  const report = page.getByRole("article", { name: "Report" });
  await report.waitFor({ timeout: 60_000 });
  await report.getByText(/^1 verified statement, 1 not verified/).waitFor();
  await report.getByRole("cell", { name: "212" }).waitFor();
  await inspect(page, "report-of-a-provider", { isPhone: true });
  await report.getByRole("button", { name: "Citation 1: Ferries" }).click();
  const dialog = page.getByRole("dialog");
  assert.equal(await dialog.locator("mark").textContent(), SENTENCE);
  await dialog.getByRole("button", { name: "Close", exact: true }).last().click();
  await report.getByRole("button", { name: "Citation 2, not verified: Ferries" }).click();
  await page.getByRole("dialog").getByText(/This citation is not verified/).waitFor();
  await inspect(page, "report-of-a-provider-unverified", { isPhone: true });
});
