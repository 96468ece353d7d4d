import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, before, test } from "node:test";

import { becomeOwner, openBrowser, send, start } from "./harness.mjs";

// Pages of other origins, in the browser of a person who is signed in, try to use the session: from
// another port of the same host, whose requests have the cookie because ports do not separate
// cookies, from another host name, and from a frame without an origin.

let server;
let browser;
let owner;
let attacker;
let existing;
let state;
before(async () => {
  server = await start();
  browser = await openBrowser();
  owner = await browser.page();
  await becomeOwner(owner, server);
  const { id } = await send(owner, "POST", "/keys", { name: "production" });
  const turns = [{ input: { content: "Hello" }, answers: [{ model: "sim/chat", content: "Hi", status: "completed" }] }];
  const chat = `chat_0199f0000000${"7000"}${"8"}${"0".repeat(15)}`;
  await send(owner, "PUT", `/chats/${chat}`, { base_revision: 0, from: 0, turns, kind: "chat", title: "Mine", settings: {} });
  existing = { key: id, chat, account: (await send(owner, "GET", "/account")).id };
  state = await look();
  attacker = await serveAttacker();
});
after(async () => {
  await browser?.close();
  attacker?.close();
  await server?.stop();
});

/** Serves an empty page, and the page with a frame without an origin. */
async function serveAttacker() {
  const web = createServer((request, response) => {
    response.setHeader("content-type", "text/html");
    const isSandbox = request.url.startsWith("/sandbox");
    response.end(isSandbox ? '<!doctype html><iframe sandbox="allow-scripts allow-forms allow-popups" src="/inner"></iframe>' : "<!doctype html><title>Other</title>");
  });
  await new Promise((done) => web.listen(0, done));
  return web;
}

/** Everything that a forged request could change. */
async function look() {
  const keys = await send(owner, "GET", "/keys");
  const chats = await send(owner, "GET", "/chats");
  const calls = await send(owner, "GET", "/calls?limit=100");
  const files = await owner.evaluate(async () => {
    const { session } = await (await fetch("/console/api/v1/session", { headers: { "x-tollgate-account": "-" } })).json();
    const response = await fetch("/console/v1/files", { headers: { "x-tollgate-account": session.accounts[0].id } });
    return response.json();
  });
  const audit = await send(owner, "GET", "/audit-log?limit=100");
  return {
    keys: keys.data.map((key) => [key.id, key.name, key.state]),
    chats: chats.data.map((chat) => [chat.id, chat.title, chat.revision]),
    calls: calls.data.length,
    files: files.data.length,
    changes: audit.data.length,
    balance: (await send(owner, "GET", "/balance")).credits,
    account: (await send(owner, "GET", "/account")).name,
    members: (await send(owner, "GET", "/members")).data.length,
  };
}

async function assertUnchanged(where) {
  assert.deepEqual(await look(), state, where);
}

/** What each attack tries. `body` is the JSON of the request. */
function targets() {
  const call = { model: "sim/chat", messages: [{ role: "user", content: "forged" }] };
  const turns = [{ input: { content: "forged" }, answers: [{ model: "x", content: "x", status: "completed" }] }];
  const save = (base_revision) => ({ base_revision, from: 0, turns, kind: "chat", title: "forged", settings: {} });
  return [
    ["POST", "/v1/chat/completions", call],
    ["POST", "/console/v1/chat/completions", call],
    ["POST", "/console/v1/responses", { model: "sim/chat", input: "forged" }],
    ["POST", "/console/v1/files", { purpose: "user_data" }],
    ["POST", "/console/api/v1/keys", { name: "forged" }],
    ["DELETE", `/console/api/v1/keys/${existing.key}`, null],
    ["PATCH", `/console/api/v1/keys/${existing.key}`, { name: "forged" }],
    ["POST", `/console/api/v1/keys/${existing.key}/rotate`, { overlap_hours: 0 }],
    ["PUT", `/console/api/v1/chats/chat_0199f00000017000${"8"}${"0".repeat(15)}`, save(0)],
    ["PUT", `/console/api/v1/chats/${existing.chat}`, save(1)],
    ["PATCH", `/console/api/v1/chats/${existing.chat}`, { title: "forged" }],
    ["DELETE", `/console/api/v1/chats/${existing.chat}`, null],
    ["DELETE", "/console/api/v1/chats", null],
    ["PATCH", "/console/api/v1/account", { name: "forged" }],
    ["POST", "/console/api/v1/invitations", { email: "eve@example.com", role: "owner" }],
    ["POST", "/console/api/v1/sign-out", {}],
    ["DELETE", "/console/api/v1/sessions", null],
    ["GET", "/console/api/v1/session", null],
    ["GET", "/console/api/v1/keys", null],
    ["GET", "/console/api/v1/chats/export", null],
    ["GET", "/console/v1/account/usage", null],
  ];
}

/** Origins of the attacks: a page or its frame, and the address of the server as the page names it. */
async function origins() {
  const port = attacker.address().port;
  const own = new URL(server.address).port;
  const open = async (address) => {
    const page = await owner.context().newPage();
    await page.goto(address);
    return page;
  };
  const sandbox = await open(`http://localhost:${port}/sandbox`);
  return [
    ["another port", await open(`http://localhost:${port}/`), server.address],
    ["another host name", await open(`http://127.0.0.1:${port}/`), server.address],
    ["another host name of the server", await open(`http://localhost:${port}/`), `http://127.0.0.1:${own}`],
    ["no origin", sandbox.frames()[1], server.address],
  ];
}

test("requests of scripts of other origins are refused and change nothing", async () => {
  const answered = [];
  const note = (response) => {
    const { pathname, port } = new URL(response.url());
    const isOwn = response.request().headers()["x-tollgate-account"] && response.status() === 200;
    if (port === new URL(server.address).port && !isOwn) answered.push([response.request().method(), pathname, response.status()]);
  };
  owner.context().on("response", note);
  for (const [where, frame, address] of await origins()) {
    answered.length = 0;
    const outcomes = await frame.evaluate(
      async ([address, targets, account]) => {
        const found = [];
        const attempt = async (name, path, init) => {
          try {
            const response = await fetch(address + path, { credentials: "include", ...init });
            found.push([name, path, response.type, response.status, response.type === "opaque" ? "" : (await response.text()).slice(0, 200)]);
          } catch (error) {
            found.push([name, path, "failed", 0, String(error)]);
          }
        };
        for (const [method, path, content] of targets) {
          const body = content === null ? undefined : JSON.stringify(content);
          const json = { "content-type": "application/json" };
          await attempt("cors", path, { method, body, headers: { ...json, "x-tollgate-account": account } });
          await attempt("cors without the header", path, { method, body, headers: json });
          await attempt("cors, simple", path, { method: method === "GET" ? "GET" : "POST", body, headers: { "content-type": "text/plain" } });
          await attempt("no-cors", path, { method: method === "GET" ? "GET" : "POST", mode: "no-cors", body, headers: { "content-type": "text/plain" } });
          await attempt("override", `${path}?_method=${method}&x-tollgate-account=${account}`, { method: "POST", mode: "no-cors", body: body ?? "" });
          navigator.sendBeacon(address + path, new Blob([body ?? ""], { type: "text/plain" }));
          navigator.sendBeacon(address + path, new URLSearchParams({ name: "forged" }));
        }
        return found;
      },
      [address, targets(), existing.account],
    );
    const readable = outcomes.filter(([, , type]) => type !== "failed" && type !== "opaque");
    assert.deepEqual(readable, [], where);
    // The requests that the browser sent without asking first have reached the server.
    assert.ok(answered.length > 10, `${where}: ${answered.length} responses`);
    const granted = answered.filter(([, , status]) => status < 400 || status >= 500);
    assert.deepEqual(granted, [], where);
    await assertUnchanged(where);
  }
  owner.context().off("response", note);
});

test("forms of other origins change nothing", async () => {
  for (const [where, frame, address] of await origins()) {
    await frame.evaluate(
      async ([address, targets]) => {
        // The answers open in frames, which the server forbids.
        const answered = [];
        for (const [index, [method, path, content]] of targets.entries()) {
          for (const enctype of ["application/x-www-form-urlencoded", "text/plain", "multipart/form-data"]) {
            const sink = document.createElement("iframe");
            sink.name = `sink${index}${enctype}`;
            const form = document.createElement("form");
            Object.assign(form, { action: address + path, method: method === "GET" ? "GET" : "POST", enctype, target: sink.name });
            const field = document.createElement("input");
            const body = JSON.stringify(content ?? {});
            // Text with an equals sign: the field makes valid JSON.
            field.name = enctype === "text/plain" ? `${body.slice(0, -1)}${body.length > 2 ? "," : ""}"x":"` : "name";
            field.value = enctype === "text/plain" ? '"}' : "forged";
            form.append(field);
            document.body.append(sink, form);
            answered.push(
              new Promise((done) => {
                sink.onload = () => sink.dataset.sent && done();
                setTimeout(done, 5000);
              }),
            );
            sink.dataset.sent = "1";
            form.submit();
          }
        }
        await Promise.all(answered);
      },
      [address, targets()],
    );
    await assertUnchanged(where);
  }
});

test("a form in the top window shows no answer of the session", async () => {
  for (const [path, content] of [
    ["/console/api/v1/keys", { name: "forged" }],
    ["/console/api/v1/sign-out", {}],
    ["/console/v1/chat/completions", { model: "sim/chat", messages: [{ role: "user", content: "forged" }] }],
    ["/console/api/v1/sign-in/link", { token: "x".repeat(43) }],
  ]) {
    const page = await owner.context().newPage();
    await page.goto(`http://localhost:${attacker.address().port}/`);
    const answered = page.waitForResponse((response) => response.url().endsWith(path));
    await page.evaluate(
      ([action, body]) => {
        const form = document.createElement("form");
        Object.assign(form, { action, method: "POST", enctype: "text/plain" });
        const field = document.createElement("input");
        field.name = `${body.slice(0, -1)}${body.length > 2 ? "," : ""}"x":"`;
        field.value = '"}';
        form.append(field);
        document.body.append(form);
        form.submit();
      },
      [server.address + path, JSON.stringify(content)],
    );
    const status = (await answered).status();
    // A page that closes while it navigates blocks the browser.
    await page.waitForURL(server.address + path);
    assert.ok(status >= 400 && status < 500, `${path}: ${status}`);
    await page.close();
    await assertUnchanged(path);
  }
});

test("images, scripts, styles and media of other origins load nothing of the session", async () => {
  const [where, page, address] = (await origins())[0];
  const loaded = await page.evaluate(
    async ([address, paths]) => {
      const found = [];
      for (const path of paths) {
        for (const name of ["img", "script", "link", "video", "object", "embed"]) {
          const element = document.createElement(name);
          const done = new Promise((settled) => {
            element.onload = element.onloadeddata = () => settled(true);
            element.onerror = () => settled(false);
            setTimeout(() => settled(false), 1000);
          });
          if (name === "link") element.rel = "stylesheet";
          element[name === "link" ? "href" : name === "object" ? "data" : "src"] = address + path;
          document.body.append(element);
          if ((await done) && name !== "object" && name !== "embed") found.push(`${name} ${path}`);
        }
      }
      return found;
    },
    [address, ["/console/api/v1/session", "/console/api/v1/keys", "/console/api/v1/chats/export", "/console/v1/files"]],
  );
  assert.deepEqual(loaded, [], where);
  await assertUnchanged("resources");
});

test("WebSockets of other origins, and without a key, do not open", async () => {
  for (const [where, frame, address] of await origins()) {
    const opened = await frame.evaluate(
      async ([address, account]) => {
        const found = [];
        for (const path of ["/v1/responses", "/v1/realtime", "/console/v1/responses", "/console/v1/realtime"]) {
          for (const protocols of [[], ["realtime"], [`x-tollgate-account.${account}`]]) {
            const socket = new WebSocket(address.replace("http", "ws") + path, protocols);
            const isOpen = await new Promise((done) => {
              socket.onopen = () => done(true);
              socket.onerror = () => done(false);
              setTimeout(() => done(false), 2000);
            });
            if (isOpen) found.push(path);
            socket.close();
          }
        }
        return found;
      },
      [address, existing.account],
    );
    assert.deepEqual(opened, [], where);
  }
  await assertUnchanged("WebSocket");
});

test("no page of another origin frames the console or reads its window", async () => {
  const [, page, address] = (await origins())[0];
  const paths = ["/console", "/console/keys", "/console/sign-in", "/console/api/v1/session", "/console/overview?x=1"];
  for (const path of paths) {
    const frame = await page.evaluate(async (source) => {
      const element = document.createElement("iframe");
      element.src = source;
      const settled = new Promise((done) => {
        element.onload = done;
        setTimeout(done, 3000);
      });
      document.body.append(element);
      await settled;
      try {
        return element.contentDocument?.body?.textContent ?? "opaque";
      } catch {
        return "opaque";
      }
    }, address + path);
    assert.match(frame, /^(opaque|)$/, path);
  }
  for (const frame of page.frames().slice(1)) {
    const shown = await frame.evaluate(() => document.querySelector("#app")?.childElementCount ?? 0).catch(() => 0);
    assert.equal(shown, 0, frame.url());
    assert.ok(!frame.url().startsWith(`${address}/console/api`) || (await frame.content().catch(() => "")).includes("person") === false);
  }
  // A window that the page opens is severed from it, in both directions.
  const [popup] = await Promise.all([
    page.context().waitForEvent("page"),
    page.evaluate((target) => {
      globalThis.opened = globalThis.open(target, "console");
    }, `${address}/console/keys`),
  ]);
  await popup.getByRole("heading", { name: "Keys" }).waitFor();
  const seen = await page.evaluate(() => {
    try {
      return { isClosed: globalThis.opened.closed, text: globalThis.opened.document.body.textContent, frames: globalThis.opened.length };
    } catch (error) {
      return { isClosed: globalThis.opened.closed, text: "", frames: 0 };
    }
  });
  assert.deepEqual(seen, { isClosed: true, text: "", frames: 0 });
  assert.equal(await popup.evaluate(() => globalThis.opener), null);
  await popup.close();
  await assertUnchanged("frames");
});

test("links of other origins change nothing by being opened", async () => {
  for (const path of ["/console/keys?create=1", "/console/playground?new=1&model=sim/chat", "/console/api/v1/sign-out", "/console/usage?limits=1"]) {
    const page = await owner.context().newPage();
    await page.goto(`http://localhost:${attacker.address().port}/`);
    await page.evaluate((target) => {
      location.href = target;
    }, server.address + path);
    await page.waitForURL((url) => url.origin === server.address);
    await page.waitForTimeout(300);
    await page.close();
    await assertUnchanged(path);
  }
});

test("the session is still valid, and works for its own page", async () => {
  await owner.reload();
  await owner.getByRole("heading", { name: "Overview" }).waitFor();
  await assertUnchanged("end");
  await send(owner, "POST", "/keys", { name: "own" });
  assert.deepEqual((await send(owner, "GET", "/keys")).data.map((key) => key.name).sort(), ["first", "own", "production"]);
  const cookies = await owner.context().cookies();
  assert.ok(cookies.every((cookie) => cookie.httpOnly && cookie.sameSite === "Strict"), JSON.stringify(cookies));
});
