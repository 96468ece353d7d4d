import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { accept, becomeOwner, inspect, openBrowser, PASSWORD, send, start } from "./harness.mjs";

// Two chats reach the limit.
const SETTINGS = `
[limits]
chats = 2
`;

let server;
let browser;
let owner;
before(async () => {
  server = await start(SETTINGS);
  browser = await openBrowser();
  owner = await browser.page();
  await becomeOwner(owner, server);
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

const message = (page) => page.locator(".compose textarea");
const indicator = (page) => page.locator(".save");

async function ask(page, text) {
  await message(page).fill(text);
  await page.keyboard.press("Control+Enter");
}

async function saved(page) {
  await page.locator(".save.ok").waitFor();
}

async function done(page, number = 0) {
  await page.getByText("Done", { exact: true }).nth(number).waitFor();
}

function newChat(page) {
  return page.getByRole("button", { name: "New chat", exact: true }).click();
}

async function listed(page) {
  const { data } = await send(page, "GET", "/chats");
  return data;
}

test("a chat with two columns saves itself 600 ms after its turn has settled", async () => {
  await owner.getByRole("link", { name: "Playground" }).click();
  await owner.getByRole("button", { name: "Add column" }).click();
  await ask(owner, "Compare these. [[sim tokens=50 pace=20 reason=4]]");
  await owner.getByText("Streaming").first().waitFor();
  assert.equal(await indicator(owner).textContent(), "");
  await owner.locator(".save.ing").waitFor();
  assert.equal(await owner.getByText("Done", { exact: true }).count(), 2);
  await saved(owner);
  const [chat] = await listed(owner);
  assert.equal(chat.turns, 1);
  assert.equal(new URL(owner.url()).searchParams.get("chat"), chat.id);
  const whole = await send(owner, "GET", `/chats/${chat.id}`);
  assert.deepEqual(
    whole.content[0].answers.map((answer) => [answer.status, answer.usage.completion_tokens]),
    [
      ["completed", 54],
      ["completed", 54],
    ],
  );
  await inspect(owner, "playground-chat", { isPhone: true });
});

test("a chat is Saved while the next turn streams, and is the same after a reload", async () => {
  await ask(owner, "Again. [[sim tokens=400 pace=20]]");
  await owner.getByText("Streaming").first().waitFor();
  await inspect(owner, "playground-streaming");
  assert.equal(await indicator(owner).textContent(), "Saved");
  await done(owner, 3);
  await saved(owner);
  await owner.reload();
  await done(owner, 3);
  assert.equal(await owner.getByRole("article").count(), 2);
});

test("an edit replaces a turn and all behind it, and a branch begins a new chat", async () => {
  await owner.getByRole("button", { name: "Edit message 1" }).click();
  await owner.getByRole("textbox", { name: "Message", exact: true }).fill("Shorter.");
  await owner.getByRole("button", { name: "Send again" }).click();
  await done(owner, 1);
  await owner.locator(".save.ing").waitFor();
  await saved(owner);
  assert.deepEqual((await listed(owner)).map((chat) => [chat.turns, chat.revision]), [[1, 3]]);
  await owner.getByRole("button", { name: "Branch into a new chat after turn 1" }).click();
  await owner.locator(".save.ing").waitFor();
  await saved(owner);
  assert.equal((await listed(owner)).length, 2);
});

test("a chat over the limit runs without saving, until another one is deleted", async () => {
  await newChat(owner);
  await ask(owner, "One too many");
  await done(owner);
  await owner.locator(".save.no").waitFor();
  await owner.getByText("saves itself when another chat is deleted").waitFor();
  await inspect(owner, "playground-not-saving", { isPhone: true });
  await ask(owner, "Still answers");
  await done(owner, 1);
  await owner.getByRole("link", { name: "Chats", exact: true }).first().click();
  await owner.getByText("2 of 2 chats").waitFor();
  await owner.getByRole("button", { name: /^Actions for/ }).first().click();
  await owner.getByRole("menuitem", { name: "Delete" }).click();
  await owner.getByRole("button", { name: "Delete chat" }).click();
  await owner.getByRole("link", { name: "One too many" }).waitFor();
  const chats = await listed(owner);
  assert.equal(chats.find((chat) => chat.title === "One too many").turns, 2);
});

test("a chat that was changed elsewhere offers to load it again or to save a copy", async () => {
  await owner.getByRole("link", { name: "One too many" }).click();
  await done(owner, 1);
  const [chat] = await listed(owner);
  const whole = await send(owner, "GET", `/chats/${chat.id}`);
  const body = { base_revision: chat.revision, from: 0, turns: whole.content.slice(0, 1), kind: "chat", settings: {} };
  await send(owner, "PUT", `/chats/${chat.id}`, body);
  await ask(owner, "Third");
  await owner.getByRole("button", { name: "Load again" }).waitFor();
  await inspect(owner, "playground-conflict");
  await owner.getByRole("button", { name: "Load again" }).click();
  await saved(owner);
  assert.equal(await owner.getByRole("article").count(), 1);
});

test("a page that closes saves what is due", async () => {
  await ask(owner, "Before the end");
  await done(owner, 1);
  await owner.goto("about:blank");
  await owner.goto(`${server.address}/console/chats`);
  await owner.getByRole("link", { name: "One too many" }).click();
  await done(owner, 1);
  await owner.getByRole("article").getByText("Before the end").first().waitFor();
});

test("a temporary chat is not saved", async () => {
  await newChat(owner);
  await owner.getByRole("button", { name: "Chat", exact: true }).click();
  await owner.getByRole("menuitemradio", { name: "Temporary chat" }).click();
  await ask(owner, "Between us");
  await done(owner);
  await owner.getByText("Temporary", { exact: true }).waitFor();
  await owner.waitForTimeout(1000);
  assert.ok((await listed(owner)).every((chat) => chat.title !== "Between us"));
});

test("chats are renamed, searched, exported and deleted", async () => {
  await owner.getByRole("link", { name: "Chats", exact: true }).first().click();
  await owner.getByRole("button", { name: "Actions for One too many" }).click();
  await owner.getByRole("menuitem", { name: "Rename" }).click();
  await owner.getByRole("dialog").getByLabel("Title").fill("<img src=x onerror=alert(1)>");
  await owner.getByRole("dialog").getByRole("button", { name: "Rename" }).click();
  await owner.getByRole("link", { name: "<img src=x onerror=alert(1)>" }).waitFor();
  await inspect(owner, "chats", { isPhone: true });
  await owner.getByRole("searchbox", { name: "Title" }).fill("IMG");
  await owner.getByRole("row").nth(2).waitFor({ state: "detached" });
  await owner.getByRole("searchbox", { name: "Title" }).fill("no such title");
  await owner.getByText("No title contains “no such title”").waitFor();
  await owner.getByRole("button", { name: "Show all chats" }).click();
  await owner.getByRole("row").nth(2).waitFor();
  const download = owner.waitForEvent("download");
  await owner.getByRole("button", { name: "All chats", exact: true }).click();
  await owner.getByRole("menuitem", { name: "Export all chats" }).click();
  assert.equal((await download).suggestedFilename(), "chats.jsonl");
  await owner.getByRole("button", { name: "All chats", exact: true }).click();
  await owner.getByRole("menuitem", { name: "Delete all chats" }).click();
  await owner.getByRole("button", { name: "Delete chats" }).click();
  await owner.getByText("No saved chats yet").waitFor();
  await inspect(owner, "chats-empty", { isPhone: true });
});

test("members read the chats of others and continue in a copy; viewers read none", async () => {
  await owner.getByRole("button", { name: "Start a chat" }).click();
  await ask(owner, "For all of us");
  await done(owner);
  await saved(owner);
  const invitation = await send(owner, "POST", "/invitations", { email: "ana@example.com", role: "member" });
  const ana = await browser.page();
  await accept(ana, invitation.url, "Ana Ruiz", `${PASSWORD} 2`);
  await ana.getByRole("link", { name: "Chats", exact: true }).click();
  assert.equal(await ana.getByRole("button", { name: "Actions for For all of us" }).count(), 0);
  await ana.getByRole("link", { name: "For all of us" }).click();
  await done(ana);
  await message(ana).fill("Mine now");
  await ana.getByRole("button", { name: "Send in a copy" }).click();
  await done(ana, 1);
  await saved(ana);
  assert.equal((await listed(ana)).length, 2);

  await send(owner, "PATCH", `/members/${invitation.member.id}`, { role: "viewer" });
  await ana.goto(`${server.address}/console/chats`);
  await ana.getByText("Your role does not include chats").waitFor();
  await ana.goto(`${server.address}/console/playground`);
  await ana.getByText("Your role does not include the playground").waitFor();
  await inspect(ana, "playground-viewer", { isPhone: true });
});
