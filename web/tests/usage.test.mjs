import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { accept, becomeOwner, call, inspect, openBrowser, PASSWORD, send, start } from "./harness.mjs";

const SETTINGS = `
[service]
support = "support@example.com"
`;

let server;
let browser;
let owner;
before(async () => {
  server = await start(SETTINGS);
  browser = await openBrowser();
  owner = await browser.page();
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

/** Reads a file that the page saves. */
async function saved(page, click) {
  const [download] = await Promise.all([page.waitForEvent("download"), click()]);
  const chunks = [];
  for await (const chunk of await download.createReadStream()) chunks.push(chunk);
  return { name: download.suggestedFilename(), text: Buffer.concat(chunks).toString("utf8") };
}

test("an account without calls shows the next step", async () => {
  await becomeOwner(owner, server);
  await owner.getByRole("link", { name: "Usage" }).click();
  await owner.getByRole("heading", { name: "No calls in the last 30 days" }).waitFor();
  await inspect(owner, "usage-empty", { isPhone: true });
  await owner.getByRole("link", { name: "Calls" }).click();
  await owner.getByRole("heading", { name: "No calls in the last 30 days" }).waitFor();
  await owner.getByRole("button", { name: "Show all calls" }).click();
  await owner.getByRole("heading", { name: "No calls yet" }).waitFor();
  await inspect(owner, "calls-empty", { isPhone: true });
});

test("a call appears in the open list, and shows its lines and transfers", async () => {
  const key = await send(owner, "POST", "/keys", { name: "production" });
  assert.equal(await call(server, key.key), 200);
  const calls = owner.getByRole("table", { name: "Calls" });
  await calls.getByRole("row", { name: /sim\/chat.*production.*OK/ }).waitFor();
  for (let count = 0; count < 2; count += 1) assert.equal(await call(server, key.key), 200);
  await owner.waitForFunction(() => document.querySelectorAll(".rowlink").length === 3);
  await inspect(owner, "calls", { isPhone: true });

  // By keyboard alone: to the second row, into its detail, to an older call, and back.
  await calls.getByRole("link").first().focus();
  await owner.keyboard.press("ArrowDown");
  await owner.keyboard.press("Enter");
  const pane = owner.getByRole("complementary", { name: "Call" });
  await pane.getByRole("heading", { name: "Timeline" }).waitFor();
  const id = new URL(owner.url()).pathname.split("/").at(-1);
  const detail = await send(owner, "GET", `/calls/${id}`);
  await pane.getByText(detail.call.request_id).waitFor();
  const shown = (await pane.getByRole("region", { name: "Price lines" }).textContent()).replaceAll(",", "");
  for (const line of detail.receipt.lines) {
    assert.ok(shown.includes(`${line.tokens} ×`), `${shown} lacks ${line.class}`);
    const decimals = line.product.padStart(16, "0").slice(-15).replace(/0+$/, "");
    assert.ok(shown.includes(`.${decimals}`), `${shown} lacks ${line.product} × 10⁻¹⁵`);
  }
  assert.equal(await pane.getByRole("region", { name: "Ledger" }).getByRole("listitem").count(), detail.transfers.length);
  await inspect(owner, "call", { isPhone: true });
  await pane.getByRole("button", { name: "Older call" }).click();
  await owner.waitForFunction((old) => !location.pathname.endsWith(old), id);
  await pane.getByRole("heading", { name: "Timeline" }).waitFor();
  await owner.keyboard.press("Escape");
  await pane.waitFor({ state: "detached" });
  assert.equal(new URL(owner.url()).pathname, "/console/calls");
});

test("filters limit the list, its file and its address", async () => {
  await owner.getByRole("button", { name: "Key", exact: true }).click();
  const finder = owner.getByRole("dialog", { name: "Filter by key" });
  await finder.getByRole("combobox").fill("first");
  await inspect(owner, "calls-filter", { isPhone: true });
  await owner.keyboard.press("Enter");
  await owner.getByRole("heading", { name: "No call matches the filters" }).waitFor();
  await owner.getByRole("button", { name: "Remove the filter Key" }).click();
  await owner.getByRole("button", { name: "Status" }).click();
  await owner.getByRole("option", { name: "OK", exact: true }).click();
  await owner.waitForFunction(() => document.querySelectorAll(".rowlink").length === 3);
  const { name, text } = await saved(owner, () => owner.getByRole("button", { name: "CSV" }).click());
  assert.match(name, /^calls-\d{4}-\d{2}-\d{2}\.csv$/);
  assert.equal(text.trim().split("\n").length, 4, text);

  const { data } = await send(owner, "GET", "/calls?limit=1");
  await owner.getByRole("searchbox", { name: "Request id" }).fill(data[0].request_id);
  await owner.waitForFunction(() => document.querySelectorAll(".rowlink").length === 1);
  await owner.reload();
  await owner.waitForFunction(() => document.querySelectorAll(".rowlink").length === 1);
});

test("the list continues after pages without a match", async () => {
  const at = Date.now() - 40 * 24 * 60 * 60 * 1000;
  const cursor = `hold_${at.toString(16).padStart(12, "0")}7${"0".repeat(19)}`;
  let continued = 0;
  await owner.route("**/console/api/v1/calls?*", (route) => {
    if (new URL(route.request().url()).searchParams.has("after")) continued += 1;
    return route.fulfill({ json: { data: [], has_more: true, next: cursor } });
  });
  await owner.goto(`${server.address}/console/calls?range=90d`);
  await owner.getByText(/^Searched back to \d+ \w+ \d{4}/).waitFor();
  assert.equal(continued, 7);
  await inspect(owner, "calls-searched", { isPhone: true });
  await owner.unroute("**/console/api/v1/calls?*");
  await owner.getByRole("button", { name: "Continue the search" }).click();
  await owner.getByText("These are all matching calls.").waitFor();
});

test("usage shows the calls by model, key, member and endpoint", async () => {
  await owner.goto(`${server.address}/console/usage?range=24h`);
  const groups = owner.getByRole("list", { name: "Cost by model" });
  await groups.getByRole("link", { name: /sim\/chat.*Calls: 3/ }).waitFor();
  await inspect(owner, "usage", { isPhone: true });
  const chart = owner.getByRole("slider", { name: "Cost by model" });
  await chart.focus();
  await owner.keyboard.press("End");
  assert.match(await chart.getAttribute("aria-valuetext"), /UTC|to \d\d:\d\d: /);
  await inspect(owner, "usage-tooltip");
  await owner.getByRole("group", { name: "Measure" }).getByRole("button", { name: "Requests" }).click();
  await owner.getByRole("group", { name: "Group by" }).getByRole("button", { name: "Key" }).click();
  await owner.getByRole("button", { name: "Table" }).click();
  const table = owner.getByRole("table", { name: "Requests by key" });
  await table.getByRole("columnheader", { name: "production" }).waitFor();
  await inspect(owner, "usage-table", { isPhone: true });
  const { text } = await saved(owner, () => owner.getByRole("button", { name: "CSV" }).click());
  assert.match(text, /^start,key,name,requests,cost,tokens\r\n.*production/);
  await owner.getByRole("list", { name: "Requests by key" }).getByRole("link", { name: /production/ }).click();
  await owner.getByRole("button", { name: "Key production" }).waitFor();
  await owner.waitForFunction(() => document.querySelectorAll(".rowlink").length === 3);
});

/** The day of now in UTC, as the address of the calls names it. */
function today() {
  const day = new Date().toISOString().slice(0, 10);
  const next = new Date(Date.parse(day) + 86_400_000).toISOString().slice(0, 10);
  return { from: `${day}T00:00:00.000Z`, to: `${next}T00:00:00.000Z` };
}

function range() {
  const { pathname, searchParams } = new URL(owner.url());
  return { pathname, from: searchParams.get("from"), to: searchParams.get("to") };
}

test("a bar of a day leads to its calls, whose range can be removed", async () => {
  await owner.goto(`${server.address}/console/overview`);
  const chart = owner.getByRole("slider", { name: "Cost by model" });
  const { width, height } = await chart.boundingBox();
  // A day without calls leads nowhere.
  await chart.click({ position: { x: width / 2, y: height / 2 } });
  assert.equal(new URL(owner.url()).pathname, "/console/overview");
  await chart.click({ position: { x: width - 10, y: height / 2 } });
  const chip = owner.getByRole("button", { name: /^Remove the filter \d+ \w+, UTC$/ });
  await chip.waitFor();
  assert.deepEqual(range(), { pathname: "/console/calls", ...today() });
  await owner.waitForFunction(() => document.querySelectorAll(".rowlink").length === 3);
  await inspect(owner, "calls-day", { isPhone: true });

  // A filter and the file stay in the range.
  await owner.getByRole("button", { name: "Status" }).click();
  await owner.getByRole("option", { name: "OK", exact: true }).click();
  const asked = owner.waitForRequest("**/calls.csv?*");
  const { text } = await saved(owner, () => owner.getByRole("button", { name: "CSV" }).click());
  const { searchParams } = new URL((await asked).url());
  assert.deepEqual({ from: searchParams.get("from"), to: searchParams.get("to") }, today());
  assert.equal(text.trim().split("\n").length, 4, text);

  await chip.click();
  await owner.getByRole("button", { name: "30 days" }).waitFor();
  assert.deepEqual(range(), { pathname: "/console/calls", from: null, to: null });
});

test("a bar of the usage leads to its calls by keyboard, and a row of its table by a link", async () => {
  await owner.goto(`${server.address}/console/usage?range=24h`);
  const chart = owner.getByRole("slider", { name: "Cost by model" });
  await chart.focus();
  await owner.keyboard.press("Home");
  await owner.keyboard.press("Enter");
  assert.equal(new URL(owner.url()).pathname, "/console/usage", "an hour without calls leads nowhere");
  // The calls took place in the latest hour, or in the one before.
  await owner.keyboard.press("End");
  await owner.keyboard.press("Enter");
  if (new URL(owner.url()).pathname === "/console/usage") {
    await owner.keyboard.press("ArrowLeft");
    await owner.keyboard.press("Enter");
  }
  await owner.getByRole("button", { name: /^Remove the filter \d+ \w+, \d\d:00 to \d\d:00, UTC$/ }).waitFor();
  await owner.waitForFunction(() => document.querySelectorAll(".rowlink").length > 0);
  const { from, to } = range();
  assert.equal(Date.parse(to) - Date.parse(from), 3_600_000);

  await owner.goBack();
  await owner.getByRole("button", { name: "Table" }).click();
  await owner.getByRole("table", { name: "Cost by model" }).getByRole("link").first().click();
  await owner.waitForFunction(() => document.querySelectorAll(".rowlink").length > 0);
  assert.deepEqual(range(), { pathname: "/console/calls", from, to });
});

test("a range without calls, and one that has ended, are shown as such", async () => {
  await owner.goto(`${server.address}/console/calls?from=2026-01-01T00:00:00Z&to=2026-01-01T06:00:00Z`);
  await owner.getByRole("button", { name: "Remove the filter 1 Jan, 00:00 to 06:00, UTC" }).waitFor();
  await owner.getByRole("heading", { name: "No call matches the filters" }).waitFor();
  assert.equal(await owner.getByRole("button", { name: "Live" }).count(), 0);
  await owner.getByRole("button", { name: "Remove the filters" }).click();
  await owner.waitForFunction(() => document.querySelectorAll(".rowlink").length === 3);
  await owner.getByRole("button", { name: "Live" }).waitFor();
  await owner.goto(`${server.address}/console/calls?from=2026-01-02&to=2026-01-01`);
  await owner.getByRole("button", { name: "30 days" }).waitFor();
});

test("labels of the axis are distinct for tiny costs", async () => {
  await owner.getByRole("link", { name: "Overview" }).click();
  await owner.locator("svg.chart text").first().waitFor();
  const labels = await owner.locator('svg.chart text[text-anchor="end"]').allTextContents();
  assert.equal(new Set(labels).size, labels.length, labels.join(" "));
});

test("limits show their use, and how to request higher ones", async () => {
  await owner.keyboard.press("Control+k");
  await owner.keyboard.type("request higher");
  await owner.keyboard.press("Enter");
  const dialog = owner.getByRole("dialog", { name: "Request higher limits" });
  const { id } = await send(owner, "GET", "/account");
  await dialog.getByRole("link", { name: "support@example.com" }).waitFor();
  assert.match(
    await dialog.locator("pre").textContent(),
    new RegExp(`${id}[^]*Limit wanted[^]*Reason[^]*Peak requests[^]*Size of a request`),
  );
  await inspect(owner, "usage-limit-request", { isPhone: true });
  await dialog.getByRole("button", { name: "Close" }).click();
  const { data } = await send(owner, "GET", "/limits");
  const keys = data.find((limit) => limit.name === "keys");
  await owner.getByText(`${keys.used} of ${keys.limit}`, { exact: true }).first().waitFor();
});

test("a viewer reads usage, calls and billing", async () => {
  const invitation = await send(owner, "POST", "/invitations", { email: "vi@example.com", role: "viewer" });
  const viewer = await browser.page();
  await accept(viewer, invitation.url, "Vi Ewer", `${PASSWORD} 2`);
  await viewer.getByRole("link", { name: "Usage" }).click();
  await viewer.getByRole("list", { name: "Cost by model" }).waitFor();
  await viewer.getByRole("link", { name: "Calls", exact: true }).click();
  await viewer.getByRole("table", { name: "Calls" }).getByRole("link").first().click();
  await viewer.getByRole("heading", { name: "Price lines" }).waitFor();
  await viewer.getByRole("link", { name: "Billing" }).click();
  await viewer.getByRole("table", { name: "Credit lots" }).waitFor();
  assert.deepEqual(viewer.faults, []);
});
