// A page of an owner that notices whether a text became markup, a script or a request.

import assert from "node:assert/strict";

import { becomeOwner, openBrowser, start } from "./harness.mjs";

/** Elements and attributes that no screen has. The scripts of the page are in its head. */
const FORBIDDEN = [
  "body script, body style, body link, body meta, body base, body title",
  "iframe, frame, frameset, object, embed, applet, portal, template, math, marquee, keygen, xmp, plaintext, listing, isindex",
  "[srcdoc], [formaction], [background], [ping], [http-equiv], [is], form[action], a[name], img[name], x-foo",
  "svg script, svg foreignObject, svg animate, svg set, svg image, svg a, svg style",
].join(",");

/** Starts a server and a browser, and makes the person of the page its owner. */
export async function openWatched(settings) {
  const server = await start(settings);
  const browser = await openBrowser();
  const page = await browser.page();
  const foreign = [];
  const dialogs = [];
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

  return {
    page,
    assertInert,
    assertShown,
    open,
    /** Forgets what earlier tests have noticed. */
    reset() {
      for (const found of [foreign, dialogs, page.faults]) found.length = 0;
    },
    async close() {
      await browser.close();
      await server.stop();
    },
  };
}
