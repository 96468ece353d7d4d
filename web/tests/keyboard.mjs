// Uses a page by keyboard alone: no mouse, and no command of the browser that a keyboard lacks.

import assert from "node:assert/strict";

/** Key presses after which a page of the console must have returned to its first element. */
const MAX_TABS = 150;

/** Returns functions that press keys on a page. */
export function driver(page) {
  const { keyboard } = page;
  // A page with a listener opens no dialog of the system.
  page.on("filechooser", () => undefined);

  /** Describes the focused element, and whether its focus is visible. */
  function focused() {
    return page.evaluate(() => {
      const element = document.activeElement;
      if (!element || element === document.body) return null;
      const name = element.getAttribute("aria-label") ?? element.labels?.[0]?.textContent ?? element.textContent ?? "";
      const ring = (one, pseudo) => {
        const style = getComputedStyle(one, pseudo);
        return [style.outlineStyle !== "none" && style.outlineWidth !== "0px" ? style.outline : "", style.boxShadow, style.borderColor, style.backgroundColor].join();
      };
      // A frame around a field can show its focus.
      const around = [];
      for (let one = element; one && around.length < 6; one = one.parentElement) around.push(one);
      const withFocus = around.map((one) => ring(one));
      // The focus moves between the controls of a player, and would return to the first one.
      const isPlayer = element.matches("audio, video");
      const box = element.getBoundingClientRect();
      if (!isPlayer) element.blur();
      const withoutFocus = around.map((one) => ring(one));
      if (!isPlayer) element.focus({ preventScroll: true });
      return {
        name: name.replace(/\s+/g, " ").trim().slice(0, 60),
        tag: element.localName,
        role: element.getAttribute("role"),
        isVisible: isPlayer || withFocus.some((style, index) => style !== withoutFocus[index]),
        isOnScreen: box.bottom > 0 && box.right > 0 && box.top < innerHeight && box.left < innerWidth,
      };
    });
  }

  /** Presses Tab until an element with a name has the focus. */
  async function tabTo(name, key = "Tab") {
    for (let count = 0; count < MAX_TABS; count += 1) {
      await keyboard.press(key);
      const found = await focused();
      if (found && (typeof name === "string" ? found.name === name : name.test(found.name))) return found;
    }
    return assert.fail(`Tab does not reach ${name}`);
  }

  /** Goes through the elements of a part of the page and back, and checks that each focus is visible. */
  async function walk(where, part = "main") {
    await page.evaluate((part) => {
      const first = document.querySelector(part);
      first.tabIndex = -1;
      first.focus();
    }, part);
    const isInside = () => page.evaluate((part) => !!document.activeElement?.closest(part), part);
    const names = [];
    for (;;) {
      await keyboard.press("Tab");
      if (!(await isInside())) break;
      const found = await focused();
      assert.ok(names.length < MAX_TABS, `${where}: Tab does not leave ${names.slice(-3).join(", ")}`);
      assert.ok(found.isVisible, `${where}: the focus of ${found.tag} ${found.name} is invisible`);
      assert.ok(found.isOnScreen, `${where}: ${found.tag} ${found.name} has the focus outside the screen`);
      names.push(found.name);
    }
    // Back to before the first element. One press more enters the part again from behind.
    for (let count = 0; count <= names.length + 1; count += 1) {
      await keyboard.press("Shift+Tab");
      if (count > 0 && !(await isInside())) return names;
    }
    return assert.fail(`${where}: Shift+Tab does not leave`);
  }

  async function settled() {
    await page.waitForFunction(() => document.querySelector("h1") && !document.querySelector('.skel, [aria-busy="true"]'));
  }

  /** Opens a screen with the command palette. */
  async function go(label) {
    await keyboard.press("Control+k");
    await page.getByRole("combobox", { name: "Search actions and places" }).waitFor();
    await keyboard.type(label);
    const option = page.getByRole("option", { name: label, exact: true });
    await option.waitFor();
    for (let count = 0; (await option.getAttribute("aria-selected")) !== "true"; count += 1) {
      assert.ok(count < 30, `the arrows do not reach ${label}`);
      await keyboard.press("ArrowDown");
    }
    await keyboard.press("Enter");
    await page.getByRole("dialog", { name: "Search" }).waitFor({ state: "detached" });
  }

  /** Asserts that a dialog has the focus, returns it after Esc, and cannot be left by Tab. */
  async function assertDialog(name) {
    const dialog = page.getByRole("dialog", { name });
    await dialog.waitFor();
    for (let count = 0; count < 40; count += 1) {
      await keyboard.press("Tab");
      const isInside = await page.evaluate(() => document.activeElement === document.body || !!document.activeElement?.closest("dialog[open]"));
      assert.ok(isInside, `${name}: the focus has left the dialog`);
      const found = await focused();
      if (found) assert.ok(found.isVisible, `${name}: the focus of ${found.tag} ${found.name} is invisible`);
    }
    await keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
  }

  /** Opens the file dialog of the focused field, and chooses a file. */
  async function chooseFile(file) {
    const opened = page.waitForEvent("filechooser");
    await keyboard.press("Enter");
    await (await opened).setFiles(file);
  }

  return { keyboard, focused, tabTo, walk, settled, go, chooseFile, assertDialog };
}
