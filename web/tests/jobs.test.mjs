import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { accept, becomeOwner, inspect, openBrowser, PASSWORD, send, start } from "./harness.mjs";

let server;
let browser;
let page;
let key;
before(async () => {
  server = await start();
  browser = await openBrowser();
  page = await browser.page();
  await becomeOwner(page, server);
  key = (await send(page, "POST", "/keys", { name: "jobs" })).key;
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

/** Creates a job for images of the simulator, and returns its id. */
async function createJob(prompt, n = 1) {
  const response = await fetch(`${server.address}/v1/images/generations`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify({ model: "sim/image", prompt, n, metadata: { campaign: "<b>autumn</b>" } }),
  });
  return (await response.json()).job_id;
}

const pane = () => page.getByRole("region", { name: "Details" });

test("an account without jobs sees the next step", async () => {
  await page.getByRole("link", { name: "Jobs", exact: true }).click();
  await page.getByText("No jobs yet").waitFor();
  await inspect(page, "jobs-empty", { isPhone: true });
});

test("a job reports its progress until the images are shown", async () => {
  const id = await createJob("a red boat at night [[sim delay=3000]]", 2);
  await page.goto(`${server.address}/console/jobs?job=${id}`);
  await pane().getByRole("progressbar").waitFor();
  // The events arrive without a reload of the page.
  await pane().getByText("The job is completed.").waitFor({ state: "attached" });
  await pane().getByText("0.020000").waitFor();
  await page.waitForFunction(() => {
    const images = [...document.querySelectorAll(".output img")];
    return images.length === 2 && images.every((image) => image.complete && image.naturalWidth > 0);
  });
  await pane().getByText("<b>autumn</b>").waitFor();
  const links = pane().getByRole("link", { name: /^Open/ });
  for (const link of await links.all()) {
    assert.match(await link.getAttribute("rel"), /noopener noreferrer/);
    assert.ok((await link.getAttribute("href")).startsWith(`${server.address}/v1/media/`));
  }
  const saved = page.waitForEvent("download");
  await pane().getByRole("link", { name: "Download image 1" }).click();
  assert.match((await saved).suggestedFilename(), /^media_.*\.png$/);
  await inspect(page, "jobs-images", { isPhone: true });
});

test("a failed job shows its error", async () => {
  const id = await createJob("[[sim error=upstream_error]]");
  await page.goto(`${server.address}/console/jobs`);
  await page.getByRole("link", { name: `Images ${id}` }).click();
  await pane().getByRole("alert").getByText("upstream_error", { exact: true }).waitFor();
  await inspect(page, "jobs-failed");
  await page.keyboard.press("Escape");
  await pane().waitFor({ state: "detached" });
  const focused = await page.evaluate(() => document.activeElement.getAttribute("aria-label"));
  assert.equal(focused, `Images ${id}`);
});

test("jobs are filtered by type and status", async () => {
  await page.getByRole("button", { name: "Status" }).click();
  await page.getByRole("menuitemradio", { name: "Failed" }).click();
  await page.getByText("Completed").waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Type" }).click();
  await page.getByRole("menuitemradio", { name: "Video" }).click();
  await page.getByText("No job matches the filters").waitFor();
  await page.getByRole("button", { name: "Show all jobs" }).click();
  await page.getByText("Completed").first().waitFor();
});

test("a running job is cancelled", async () => {
  const id = await createJob("[[sim delay=60000]]");
  await page.goto(`${server.address}/console/jobs?job=${id}`);
  await pane().getByRole("button", { name: "Cancel job" }).click();
  const dialog = page.getByRole("dialog", { name: "Cancel this job?" });
  await inspect(page, "jobs-cancel", { isPhone: true });
  await dialog.getByRole("button", { name: "Cancel job" }).click();
  await page.getByText("Cancellation requested").first().waitFor();
  await pane().getByText("The job is cancelled.").waitFor({ state: "attached" });
});

test("viewers read no jobs", async () => {
  const { url } = await send(page, "POST", "/invitations", { email: "vi@example.com", role: "viewer" });
  const viewer = await browser.page();
  await accept(viewer, url, "Vi Ewer", PASSWORD);
  assert.equal(await viewer.getByRole("link", { name: "Jobs" }).count(), 0);
  await viewer.goto(`${server.address}/console/jobs`);
  await viewer.getByText("Your role does not include jobs").waitFor();
  await viewer.getByRole("link", { name: "Files" }).click();
  await viewer.getByText("No files yet").waitFor();
  assert.equal(await viewer.getByRole("button", { name: "Upload" }).count(), 0);
});
