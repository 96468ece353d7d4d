import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, before, test } from "node:test";

import { becomeOwner, inspect, openBrowser, start } from "./harness.mjs";

const HOSTILE_NAME = "<img src=x onerror=alert(1)>.txt";

let server;
let browser;
let page;
before(async () => {
  server = await start();
  browser = await openBrowser();
  page = await browser.page({ acceptDownloads: true });
  await becomeOwner(page, server);
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

function line(id, changes = {}) {
  const body = { model: "sim/chat", messages: [{ role: "user", content: "Say hello." }] };
  return JSON.stringify({ custom_id: id, method: "POST", url: "/v1/chat/completions", body, ...changes });
}

function jsonLines(name, lines) {
  return { name, mimeType: "application/jsonl", buffer: Buffer.from(`${lines.join("\n")}\n`) };
}

test("a file is uploaded, downloaded and deleted", async () => {
  await page.getByRole("link", { name: "Files" }).click();
  await page.getByText("No files yet").waitFor();
  await inspect(page, "files-empty", { isPhone: true });
  await page.getByRole("button", { name: "Upload" }).click();
  const dialog = page.getByRole("dialog", { name: "Upload a file" });
  await dialog.getByRole("button", { name: "Upload", exact: true }).click();
  await dialog.getByText("Choose a file.").waitFor();
  const file = { name: HOSTILE_NAME, mimeType: "text/plain", buffer: Buffer.from("A letter.") };
  await dialog.getByLabel("File", { exact: true }).setInputFiles(file);
  await dialog.getByLabel("7 days").check();
  await inspect(page, "files-upload", { isPhone: true });
  await dialog.getByRole("button", { name: "Upload", exact: true }).click();
  await page.getByText(`“${HOSTILE_NAME}” uploaded`).waitFor();

  const name = page.getByRole("link", { name: HOSTILE_NAME });
  await inspect(page, "files", { isPhone: true });
  await name.click();
  const pane = page.getByRole("region", { name: "Details" });
  await pane.getByText("9 bytes").waitFor();
  await inspect(page, "files-details", { isPhone: true });
  const saved = page.waitForEvent("download");
  await pane.getByRole("button", { name: "Download" }).click();
  assert.equal(await readFile(await (await saved).path(), "utf8"), "A letter.");
  await pane.getByRole("button", { name: "Delete" }).click();
  const question = page.getByRole("dialog", { name: `Delete “${HOSTILE_NAME}”?` });
  await inspect(page, "files-delete", { isPhone: true });
  await question.getByRole("button", { name: "Delete file" }).click();
  await page.getByText("No files yet").waitFor();
});

test("a batch runs the requests of a file", async () => {
  await page.getByRole("link", { name: "Batches" }).click();
  await page.getByText("No batches yet").waitFor();
  await inspect(page, "batches-empty", { isPhone: true });
  await page.getByRole("button", { name: "Create batch" }).click();
  const dialog = page.getByRole("dialog", { name: "Create a batch" });
  const lines = ["first", "second", "third"].map((id) => line(id));
  await dialog.getByLabel("File", { exact: true }).setInputFiles(jsonLines("requests.jsonl", lines));
  await dialog.getByText("No faults found").waitFor();
  await inspect(page, "batches-create", { isPhone: true });
  await dialog.getByRole("button", { name: "Create batch" }).click();

  const pane = page.getByRole("region", { name: "Details" });
  await pane.getByText("The batch is completed.").waitFor({ state: "attached" });
  await pane.getByText("3 of 3").waitFor();
  await inspect(page, "batches-details", { isPhone: true });
  const saved = page.waitForEvent("download");
  await pane.getByRole("button", { name: "Download results" }).click();
  const answers = (await readFile(await (await saved).path(), "utf8")).trim().split("\n");
  const ids = answers.map((answer) => JSON.parse(answer).custom_id);
  assert.deepEqual(ids.sort(), ["first", "second", "third"]);
  await page.getByRole("table", { name: "Batches" }).getByText("Completed").waitFor();
});

test("faults of a file are shown before and after", async () => {
  await page.getByRole("button", { name: "Create batch" }).click();
  const dialog = page.getByRole("dialog", { name: "Create a batch" });
  const lines = [line("a"), line("a"), "{broken", line("b", { method: "GET" })];
  await dialog.getByLabel("File", { exact: true }).setInputFiles(jsonLines("faults.jsonl", lines));
  await dialog.getByText("3 faults").waitFor();
  await dialog.getByText("Another line has this custom_id.").waitFor();
  await inspect(page, "batches-faults", { isPhone: true });
  await dialog.getByRole("button", { name: "Create batch" }).click();
  const pane = page.getByRole("region", { name: "Details" });
  const table = pane.getByRole("table", { name: "Faults" });
  await table.getByText("duplicate_custom_id").waitFor();
  assert.equal(await table.getByRole("row").count(), 4);
  await inspect(page, "batches-failed");
});
