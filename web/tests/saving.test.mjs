// The states of saved chats, without a browser. TypeScript compiles the module first.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, beforeEach, test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";

const WEB = fileURLToPath(new URL("..", import.meta.url));
const SOURCE = join(WEB, "src/screens/playground/saving.ts");

let folder;
let Saver;
before(async () => {
  folder = await mkdtemp(join(tmpdir(), "tollgate-saving-"));
  const compiler = join(WEB, "node_modules/.bin/tsc");
  const options = ["--ignoreConfig", "--module", "esnext", "--target", "es2023", "--outDir", folder];
  execFileSync(compiler, [SOURCE, ...options]);
  const { rename } = await import("node:fs/promises");
  await rename(join(folder, "saving.js"), join(folder, "saving.mjs"));
  ({ Saver } = await import(pathToFileURL(join(folder, "saving.mjs"))));
});
after(() => rm(folder, { recursive: true, force: true }));

let now;
let timers;
let turns;
let sent;
let states;
let answers;

beforeEach(() => {
  now = 0;
  timers = [];
  turns = [];
  sent = [];
  states = [];
  answers = [];
});

/** Creates a saver over a list of turns. `answers` has the outcome of each save: a revision or an error. */
function create(revision = 0) {
  return new Saver(
    {
      body: (base, from) => (turns.length > from ? { base, from, turns: turns.slice(from) } : null),
      send: async (body) => {
        sent.push({ at: now, ...body });
        const answer = answers.length > 0 ? answers.shift() : body.base + 1;
        if (answer instanceof Promise) return answer;
        if (typeof answer === "number") return answer;
        throw answer;
      },
      refusalOf: (error) => (error.reason ? { reason: error.reason, message: error.message } : null),
      messageOf: (error) => error.message,
      onChange: (state) => states.push(state.kind),
      setTimer: (run, ms) => {
        const timer = { run, at: now + ms };
        timers.push(timer);
        return timer;
      },
      clearTimer: (timer) => {
        timers = timers.filter((one) => one !== timer);
      },
    },
    revision,
  );
}

/** Lets time pass, and runs the timers that are due. */
async function pass(ms) {
  const end = now + ms;
  for (;;) {
    await new Promise((done) => setImmediate(done));
    const due = timers.filter((timer) => timer.at <= end).sort((a, b) => a.at - b.at)[0];
    if (!due) break;
    timers = timers.filter((one) => one !== due);
    now = due.at;
    due.run();
  }
  now = end;
  await new Promise((done) => setImmediate(done));
}

function settle(saver, text, at = turns.length) {
  turns = [...turns.slice(0, at), text];
  saver.settled(at);
}

const failure = (message = "unreachable") => new Error(message);
const refusal = (reason) => Object.assign(new Error(reason), { reason });

test("a new chat shows nothing until its first turn settles", () => {
  assert.equal(create().state.kind, "none");
  assert.equal(create(3).state.kind, "saved");
});

test("a turn is saved 600 ms after it has settled", async () => {
  const saver = create();
  settle(saver, "one");
  assert.equal(saver.state.kind, "saving");
  await pass(599);
  assert.deepEqual(sent, []);
  await pass(1);
  assert.deepEqual(sent, [{ at: 600, base: 0, from: 0, turns: ["one"] }]);
  assert.equal(saver.state.kind, "saved");
  assert.equal(saver.revision, 1);
});

test("each settling and each edit of an unsaved turn begins the debounce again", async () => {
  const saver = create();
  settle(saver, "one");
  await pass(500);
  settle(saver, "two");
  await pass(500);
  saver.edited(1);
  await pass(599);
  assert.deepEqual(sent, []);
  await pass(1);
  assert.deepEqual(sent, [{ at: 1600, base: 0, from: 0, turns: ["one", "two"] }]);
});

test("the state stays Saved while the next turn streams", async () => {
  const saver = create();
  settle(saver, "one");
  await pass(600);
  saver.edited(1);
  assert.equal(saver.state.kind, "saved");
  await pass(5000);
  assert.equal(sent.length, 1);
});

test("an edited turn replaces itself and all behind it", async () => {
  const saver = create();
  settle(saver, "one");
  settle(saver, "two");
  settle(saver, "three");
  await pass(600);
  turns = ["one"];
  saver.edited(1);
  settle(saver, "another two");
  await pass(600);
  assert.deepEqual(sent[1], { at: 1200, base: 1, from: 1, turns: ["another two"] });
});

test("failures are tried again after 1, 2, 4, 8, 16, 30 and 30 seconds, with the same body", async () => {
  const saver = create();
  answers = [failure(), failure(), failure(), failure(), failure(), failure(), failure(), 1];
  settle(saver, "one");
  await pass(600);
  assert.equal(saver.state.kind, "saving");
  assert.equal(saver.state.message, "unreachable");
  await pass(120_000);
  const waits = sent.slice(1).map((save, index) => save.at - sent[index].at);
  assert.deepEqual(waits, [1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]);
  assert.ok(sent.every((save) => save.base === 0 && save.turns.length === 1));
  assert.equal(saver.state.kind, "saved");
});

test("a turn that settles after a failure follows the repeated save", async () => {
  const saver = create();
  answers = [failure(), 1, 2];
  settle(saver, "one");
  await pass(600);
  settle(saver, "two");
  await pass(600);
  // The server may have executed the first attempt: its repetition has the same body.
  assert.deepEqual(sent.slice(1), [
    { at: 1200, base: 0, from: 0, turns: ["one"] },
    { at: 1200, base: 1, from: 1, turns: ["two"] },
  ]);
  assert.equal(saver.state.kind, "saved");
});

test("turns that settle during a save are saved after it", async () => {
  const saver = create();
  let finish;
  answers = [new Promise((done) => (finish = done)), 2];
  settle(saver, "one");
  await pass(600);
  settle(saver, "two");
  await pass(2000);
  assert.equal(sent.length, 1);
  assert.equal(saver.state.kind, "saving");
  finish(1);
  await pass(0);
  assert.deepEqual(sent[1], { at: 2600, base: 1, from: 1, turns: ["two"] });
  assert.equal(saver.state.kind, "saved");
});

test("at the limit a chat is not saved, runs on, and saves itself when the limit allows it", async () => {
  const saver = create();
  answers = [refusal("full"), refusal("full"), 1];
  settle(saver, "one");
  await pass(600);
  assert.deepEqual(saver.state, { kind: "not_saving", reason: "full", message: "full" });
  settle(saver, "two");
  assert.equal(saver.state.kind, "not_saving");
  await pass(600);
  assert.equal(sent.length, 2);
  await pass(60_000);
  assert.equal(sent.length, 2);
  saver.capacityChanged();
  await pass(0);
  assert.deepEqual(sent[2].turns, ["one", "two"]);
  assert.equal(saver.state.kind, "saved");
});

test("a conflict and a chat that is too large stop the saving", async () => {
  for (const reason of ["conflict", "too_large", "refused"]) {
    const saver = create(4);
    answers = [refusal(reason)];
    sent = [];
    turns = [];
    settle(saver, "one");
    await pass(600);
    assert.equal(saver.state.reason, reason);
    await pass(60_000);
    assert.equal(sent.length, 1);
    saver.capacityChanged();
    await pass(0);
    assert.equal(sent.length, 1);
  }
});

test("a temporary chat is never saved, until it is no longer temporary", async () => {
  const saver = create();
  saver.setTemporary(true, 0);
  settle(saver, "one");
  await pass(60_000);
  assert.deepEqual(sent, []);
  assert.equal(saver.state.kind, "none");
  assert.ok(!saver.hasUnsaved());
  assert.equal(saver.takeUnsaved(), null);
  saver.setTemporary(false, 1);
  await pass(600);
  assert.deepEqual(sent[0].turns, ["one"]);
});

test("a page that closes takes the save that is due", async () => {
  const saver = create();
  settle(saver, "one");
  assert.deepEqual(saver.takeUnsaved(), { base: 0, from: 0, turns: ["one"] });
  let finish;
  answers = [new Promise((done) => (finish = done))];
  await pass(600);
  settle(saver, "two");
  // The save that runs ends with the page: it is repeated with the same body.
  assert.deepEqual(saver.takeUnsaved(), { base: 0, from: 0, turns: ["one"] });
  finish(1);
  await pass(0);
  assert.deepEqual(saver.takeUnsaved(), { base: 1, from: 1, turns: ["two"] });
  await pass(600);
  assert.equal(saver.takeUnsaved(), null);
});

test("a deleted chat is not saved again", async () => {
  const saver = create(1);
  settle(saver, "one");
  saver.close();
  await pass(60_000);
  assert.deepEqual(sent, []);
});
