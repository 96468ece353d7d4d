// The chat of the playground. Chats live outside the screen: they continue and save themselves while
// another screen is shown.

import { batch, effect, signal, type Signal } from "@preact/signals";

import { ApiError, request, toApiError } from "../../shell/api.ts";
import { add } from "../../shell/format.ts";
import { isLive, listen } from "../../shell/live.ts";
import { setParams } from "../../shell/router.ts";
import { account, session } from "../../shell/session.ts";
import { loadUsage } from "../../shell/usage.ts";
import { chatBody, history, textOf, type Message } from "./body.ts";
import type { Answer, AnswerError, AnswerStatus, ChatList, ChatRecord, Input, Step, Turn, WholeChat } from "./chat-types.ts";
import { forgetImages, inlineImages } from "./images.ts";
import { Saver, type Refusal, type SaveState } from "./saving.ts";
import { defaultSettings, readSettings, settingsOf, type ChatSettings } from "./settings.ts";
import { emptyStep, streamStep } from "./stream.ts";

export interface LiveAnswer {
  model: string;
  steps: Step[];
  status: AnswerStatus | "running";
  error: AnswerError | null;
  /** Body of the latest request. */
  body: string | null;
  abort: AbortController;
  /** Increases with each frame in which the answer has changed. */
  version: Signal<number>;
}

export interface LiveTurn {
  key: number;
  input: Input;
  answers: LiveAnswer[];
}

interface SaveBody {
  base_revision: number;
  from: number;
  turns: Turn[];
  kind: "chat";
  title?: string;
  settings: ChatSettings;
}

/** Bytes of requests that a page may send while it closes. */
const MAX_KEEPALIVE_BYTES = 64 * 1024;

/** Milliseconds between two requests for the number of chats, while a chat waits to be saved. */
const CAPACITY_POLL_MS = 15_000;

const TITLE_LENGTH = 60;

let lastKey = 0;

/** Text that screen readers announce when an answer has ended. */
export const announcement = signal("");

export class Conversation {
  readonly id: string;
  readonly account: string;
  readonly title = signal("");
  readonly settings: Signal<ChatSettings>;
  readonly turns = signal<LiveTurn[]>([]);
  readonly saveState = signal<SaveState>({ kind: "none" });
  readonly isTemporary = signal(false);
  /** The saved chat; null before the first save. */
  readonly record = signal<ChatRecord | null>(null);
  private readonly saver: Saver<SaveBody>;

  constructor(settings: ChatSettings, saved: WholeChat | null = null) {
    this.id = saved?.id ?? newChatId();
    this.account = account.peek()?.id ?? "";
    this.settings = signal(settings);
    if (saved) {
      this.record.value = saved;
      this.title.value = saved.title;
      this.turns.value = saved.content.map(toLive);
    }
    this.saver = new Saver<SaveBody>(
      {
        body: (baseRevision, from) => this.saveBody(baseRevision, from),
        send: (body) => this.send(body),
        refusalOf,
        messageOf: (error) => toApiError(error).message,
        onChange: (state) => {
          this.saveState.value = state;
          if (state.kind === "not_saving" && state.reason === "full") awaitCapacity();
        },
        setTimer: (run, ms) => setTimeout(run, ms),
        clearTimer: (timer) => clearTimeout(timer as number),
      },
      saved?.revision ?? 0,
    );
    this.saveState.value = this.saver.state;
    conversations.add(this);
  }

  get isRunning(): boolean {
    return this.turns.value.some((turn) => turn.answers.some((one) => one.status === "running"));
  }

  change(settings: Partial<ChatSettings>): void {
    this.settings.value = { ...this.settings.peek(), ...settings };
  }

  /** Sends a message to the models of all columns. With `from`, it replaces that turn and all behind it. */
  ask(input: Input, from = this.turns.peek().length): void {
    this.stop();
    const { models } = this.settings.peek();
    const turn: LiveTurn = { key: nextKey(), input, answers: models.map(newAnswer) };
    const isEdit = from < this.turns.peek().length;
    this.turns.value = [...this.turns.peek().slice(0, from), turn];
    if (isEdit) this.saver.edited(from);
    if (!this.title.peek()) this.title.value = titleOf(input);
    for (const answer of turn.answers) void this.run(turn, answer);
  }

  /** Requests an answer of the last turn again. */
  retry(turn: LiveTurn, column: number): void {
    const answer = newAnswer(turn.answers[column]?.model ?? "");
    const next = { ...turn, answers: turn.answers.map((one, index) => (index === column ? answer : one)) };
    const index = this.turns.peek().indexOf(turn);
    if (index < 0) return;
    this.turns.value = this.turns.peek().with(index, next);
    this.saver.edited(index);
    void this.run(next, answer);
  }

  /** Sends the results of the tools that an answer has called, and continues the answer. */
  sendResults(turn: LiveTurn, answer: LiveAnswer, results: string[]): void {
    const step = answer.steps.at(-1);
    if (!step || answer.status === "running") return;
    step.tools = step.tools.map((tool, index) => ({ ...tool, result: results[index] ?? "" }));
    answer.abort = new AbortController();
    this.saver.edited(this.turns.peek().indexOf(turn));
    void this.run(turn, answer);
  }

  stop(): void {
    for (const turn of this.turns.peek()) {
      for (const answer of turn.answers) if (answer.status === "running") answer.abort.abort();
    }
  }

  /** Returns the body that a message would have in a column; without a message, that of the latest one. */
  async bodyFor(column: number, input: Input | null): Promise<Record<string, unknown>> {
    const settings = this.settings.peek();
    const model = settings.models[column] ?? "";
    const turns = this.turns.peek().map(toTurn);
    const before = input ? turns : turns.slice(0, -1);
    const content = input?.content ?? turns.at(-1)?.input.content ?? "";
    const messages: Message[] = [...history(before, model, column), { role: "user", content }];
    return this.body(model, messages, settingsOf(settings, column), input);
  }

  private async body(model: string, messages: Message[], settings: ChatSettings, input: Input | null) {
    const inputs = [...this.turns.peek().map((turn) => turn.input), ...(input ? [input] : [])];
    const images = new Set(inputs.flatMap((one) => one.images ?? []));
    return chatBody(model, images.size > 0 ? await inlineImages(messages, images, this.account) : messages, settings);
  }

  setTemporary(isTemporary: boolean): void {
    this.isTemporary.value = isTemporary;
    this.saver.setTemporary(isTemporary, this.settledTurns().length);
  }

  async rename(title: string): Promise<void> {
    if (this.saver.revision > 0 && !this.isTemporary.peek()) {
      const path = `/chats/${this.id}`;
      this.record.value = await request<ChatRecord>("PATCH", path, { body: { title }, account: this.account });
      chatsChanged();
    }
    this.title.value = title;
  }

  /** Returns a new chat with the turns up to one, as a copy. */
  branch(last = this.turns.peek().length - 1): Conversation {
    const copy = new Conversation({ ...this.settings.peek() });
    const turns = this.turns.peek().slice(0, last + 1).map(toTurn);
    copy.turns.value = turns.map(toLive);
    copy.title.value = this.title.peek();
    copy.isTemporary.value = this.isTemporary.peek();
    if (copy.isTemporary.peek()) copy.saver.setTemporary(true, turns.length);
    else if (turns.length > 0) copy.saver.settled(0);
    return copy;
  }

  /** Ends the chat: nothing of it is saved from now on. */
  discard(): void {
    this.stop();
    this.saver.close();
    conversations.delete(this);
  }

  saveNow(): void {
    this.saver.saveNow();
  }

  capacityChanged(): void {
    this.saver.capacityChanged();
  }

  get isWaitingForCapacity(): boolean {
    return this.saver.isWaiting("full");
  }

  /** Whether the server has the chat. */
  get isSaved(): boolean {
    return this.saver.revision > 0;
  }

  hasUnsaved(): boolean {
    return this.saver.hasUnsaved();
  }

  /** Saves while the page closes, if the browser allows the size. */
  flush(): void {
    this.stop();
    this.settleStopped();
    const body = this.saver.takeUnsaved();
    if (!body || sizeOf(body) > MAX_KEEPALIVE_BYTES) return;
    // The page may not live to see the outcome. A repeated save with the same body changes nothing.
    const options = { body, account: this.account, keepalive: true };
    request("PUT", `/chats/${this.id}`, options).catch(() => undefined);
  }

  /** Whether the save that is due is too large for a page that closes. */
  isTooLargeToFlush(): boolean {
    const body = this.saver.takeUnsaved();
    return body !== null && sizeOf(body) > MAX_KEEPALIVE_BYTES;
  }

  private async run(turn: LiveTurn, answer: LiveAnswer): Promise<void> {
    const settings = settingsOf(this.settings.peek(), turn.answers.indexOf(answer));
    const index = this.turns.peek().findIndex((one) => one.key === turn.key);
    const column = turn.answers.indexOf(answer);
    const before = this.turns.peek().slice(0, index).map(toTurn);
    const own = history([toTurn({ ...turn, answers: [answer] })], answer.model, 0);
    const messages = own.length > 0 ? own : [{ role: "user", content: turn.input.content } satisfies Message];
    const step = emptyStep();
    answer.steps.push(step);
    answer.status = "running";
    answer.error = null;
    this.turns.value = [...this.turns.peek()];
    try {
      const body = await this.body(answer.model, [...history(before, answer.model, column), ...messages], settings, null);
      answer.abort.signal.throwIfAborted();
      answer.body = JSON.stringify(body);
      await streamStep(answer.body, step, {
        account: this.account,
        maxCost: settings.maxCost.trim(),
        signal: answer.abort.signal,
        onChange: () => changed(answer),
      });
      if (answer.status === "running") answer.status = "completed";
    } catch (error) {
      if (answer.abort.signal.aborted) {
        answer.status = "stopped";
      } else {
        const failure = toApiError(error);
        answer.status = "failed";
        answer.error = { message: failure.message, code: failure.code };
        step.request_id ??= failure.requestId;
      }
    }
    this.settle(turn, answer);
  }

  private settle(turn: LiveTurn, answer: LiveAnswer): void {
    const index = this.turns.peek().findIndex((one) => one.key === turn.key);
    if (index < 0) return;
    const current = this.turns.peek()[index];
    batch(() => {
      answer.version.value += 1;
      this.turns.value = [...this.turns.peek()];
    });
    announce(answer);
    void loadUsage();
    if (current && isSettled(current)) this.saver.settled(index);
  }

  /** Marks the answers that were stopped, before their streams have noticed. */
  private settleStopped(): void {
    for (const [index, turn] of this.turns.peek().entries()) {
      if (isSettled(turn)) continue;
      for (const answer of turn.answers) if (answer.status === "running") answer.status = "stopped";
      this.saver.settled(index);
    }
  }

  private settledTurns(): Turn[] {
    const all = this.turns.peek();
    const end = all.findIndex((turn) => !isSettled(turn));
    return all.slice(0, end < 0 ? all.length : end).map(toTurn);
  }

  private saveBody(baseRevision: number, from: number): SaveBody | null {
    const turns = this.settledTurns().slice(from);
    if (turns.length === 0) return null;
    const title = baseRevision === 0 ? this.title.peek() : "";
    return {
      base_revision: baseRevision,
      from,
      turns,
      kind: "chat",
      ...(title ? { title } : {}),
      settings: this.settings.peek(),
    };
  }

  private async send(body: SaveBody): Promise<number> {
    const saved = await request<ChatRecord>("PUT", `/chats/${this.id}`, { body, account: this.account });
    this.record.value = saved;
    if (body.base_revision === 0) {
      chatsChanged();
      // The title was changed during the first save.
      if (this.title.peek() !== saved.title) void this.rename(this.title.peek()).catch(() => undefined);
    }
    if (this !== chat.peek() && !this.isRunning && !this.saver.hasUnsaved()) conversations.delete(this);
    return saved.revision;
  }
}

function nextKey(): number {
  lastKey += 1;
  return lastKey;
}

function newAnswer(model: string): LiveAnswer {
  return { model, steps: [], status: "running", error: null, body: null, abort: new AbortController(), version: signal(0) };
}

function isSettled(turn: LiveTurn): boolean {
  return turn.answers.every((answer) => answer.status !== "running");
}

function toLive(turn: Turn): LiveTurn {
  return {
    key: nextKey(),
    input: turn.input,
    answers: turn.answers.map((answer) => ({
      ...newAnswer(answer.model),
      steps: answer.steps?.map((step) => ({ ...emptyStep(), ...step })) ?? [
        { ...emptyStep(), content: answer.content ?? "", request_id: answer.request_id, usage: answer.usage, cost: answer.cost },
      ],
      status: answer.status,
      error: answer.error ?? null,
    })),
  };
}

export function toTurn(turn: LiveTurn): Turn {
  return { input: turn.input, answers: turn.answers.map(toAnswer) };
}

function toAnswer(answer: LiveAnswer): Answer {
  const last = answer.steps.at(-1);
  return {
    model: answer.model,
    content: contentOf(answer) || null,
    status: answer.status === "running" ? "stopped" : answer.status,
    request_id: last?.request_id ?? null,
    usage: last?.usage ?? null,
    cost: costOf(answer),
    steps: answer.steps.map((step) => ({ ...step, tools: step.tools.map((tool) => ({ ...tool })) })),
    ...(answer.error ? { error: answer.error } : {}),
  };
}

export function contentOf(answer: LiveAnswer): string {
  return answer.steps
    .map((step) => step.content || step.refusal)
    .filter(Boolean)
    .join("\n\n");
}

/** Returns the sum of the costs of all requests of an answer; null if none is known. */
export function costOf(answer: LiveAnswer): string | null {
  const costs = answer.steps.flatMap((step) => (step.cost === null ? [] : [step.cost]));
  return costs.length === 1 ? (costs[0] ?? null) : costs.length > 0 ? costs.reduce(add) : null;
}

function titleOf(input: Input): string {
  const line = textOf(input.content)
    .split("\n")
    .map((one) => one.trim())
    .find(Boolean);
  return (line ?? "Untitled").slice(0, TITLE_LENGTH);
}

/** Returns `chat_` and a UUIDv7 in hexadecimal. */
function newChatId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  const time = Date.now().toString(16).padStart(12, "0");
  const random = [...bytes.slice(6)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  const variant = (8 + ((bytes[8] ?? 0) & 3)).toString(16);
  return `chat_${time}7${random.slice(1, 4)}${variant}${random.slice(5)}`;
}

function sizeOf(body: SaveBody): number {
  return new TextEncoder().encode(JSON.stringify(body)).length;
}

const REASONS: Record<number, Refusal["reason"]> = { 409: "conflict", 413: "too_large", 422: "full" };

function refusalOf(error: unknown): Refusal | null {
  if (!(error instanceof ApiError) || error.status < 400 || error.status >= 500) return null;
  const { status, code, message } = error;
  // The session has ended, the request was too slow, or too many were sent: a later attempt can succeed.
  if (status === 401 || status === 408 || status === 429) return null;
  if (status === 422 && code !== "chat_limit_reached") return { reason: "refused", message };
  return { reason: REASONS[status] ?? "refused", message };
}

const waiting = new Set<LiveAnswer>();
let frame = 0;

/** Shows the changes of all answers once in the next frame. */
function changed(answer: LiveAnswer): void {
  waiting.add(answer);
  if (frame !== 0) return;
  frame = requestAnimationFrame(() => {
    frame = 0;
    batch(() => {
      for (const one of waiting) one.version.value += 1;
      waiting.clear();
    });
  });
}

const ANNOUNCED_LENGTH = 400;

function announce(answer: LiveAnswer): void {
  const text = contentOf(answer).slice(0, ANNOUNCED_LENGTH);
  const ends = { completed: "has answered", stopped: "was stopped", failed: "has failed", running: "" };
  announcement.value = `${answer.model} ${ends[answer.status]}. ${answer.error?.message ?? text}`;
}

/** Chats that are shown, run, or have unsaved turns. */
const conversations = new Set<Conversation>();

/** The chat that is shown. */
export const chat = signal<Conversation>(new Conversation(defaultSettings([])));

let owner: string | null = null;

// Another person who signs in on the same page sees no chat of the person before.
effect(() => {
  const person = session.value?.person.id;
  if (!person || person === owner) return;
  if (owner !== null) {
    for (const one of conversations) one.discard();
    forgetImages();
    chat.value = new Conversation(defaultSettings([]));
  }
  owner = person;
});

export function showChat(next: Conversation): void {
  const old = chat.peek();
  chat.value = next;
  if (old !== next && !old.isRunning && !old.hasUnsaved()) conversations.delete(old);
}

/** Shows another chat than the one that the address names. */
export function switchTo(next: Conversation): void {
  batch(() => {
    setParams({ chat: next.record.peek()?.id ?? null });
    showChat(next);
  });
}

/** Loads a saved chat. */
export async function loadChat(id: string, fallback: string[]): Promise<Conversation> {
  const saved = await request<WholeChat>("GET", `/chats/${encodeURIComponent(id)}`, { account: true });
  return new Conversation(readSettings(saved.settings, fallback), saved);
}

/** Increases when chats were saved, renamed or deleted in this browser. */
export const chatChanges = signal(0);

const channel = "BroadcastChannel" in window ? new BroadcastChannel("tollgate.chats") : null;

function noticeChange(): void {
  chatChanges.value += 1;
  for (const one of conversations) one.capacityChanged();
}

export function chatsChanged(): void {
  channel?.postMessage("changed");
  noticeChange();
}

channel?.addEventListener("message", noticeChange);

listen("chats", ({ count, limit }) => {
  chatChanges.value += 1;
  for (const one of conversations) if (one.account === account.peek()?.id && hasRoom(one, count, limit)) one.capacityChanged();
});

/** Whether a chat can be saved. A chat that is stored already does not count again. */
function hasRoom(one: Conversation, count: number, limit: number): boolean {
  return count < limit || (count === limit && one.isSaved);
}

let capacityTimer: ReturnType<typeof setTimeout> | undefined;

/** Requests the number of chats at intervals, while chats wait to be saved and no events arrive. */
function awaitCapacity(): void {
  clearTimeout(capacityTimer);
  capacityTimer = setTimeout(() => (isLive.peek() ? awaitCapacity() : void checkCapacity()), CAPACITY_POLL_MS);
}

async function checkCapacity(): Promise<void> {
  const one = [...conversations].find((other) => other.isWaitingForCapacity);
  if (!one) return;
  try {
    const list = await request<ChatList>("GET", "/chats?limit=1", { account: one.account });
    for (const other of conversations) if (hasRoom(other, list.count, list.limit)) other.capacityChanged();
  } catch {
    // The next look follows.
  }
  if ([...conversations].some((other) => other.isWaitingForCapacity)) awaitCapacity();
}

window.addEventListener("pagehide", () => {
  for (const one of conversations) one.flush();
});

window.addEventListener("beforeunload", (event) => {
  if ([...conversations].some((one) => one.isTooLargeToFlush())) event.preventDefault();
});

window.addEventListener("focus", () => {
  if ([...conversations].some((one) => one.isWaitingForCapacity)) void checkCapacity();
});
