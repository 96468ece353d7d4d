// Saves a chat while it grows. This module has no imports, so that its tests run without a browser.

/** Milliseconds without a change after which a chat is saved. */
export const DEBOUNCE_MS = 600;

const FIRST_RETRY_MS = 1000;
const MAX_RETRY_MS = 30_000;

export type Reason = "full" | "conflict" | "too_large" | "refused";

/**
 * `none`: a temporary chat, or a chat without a settled turn. `saved`: the server has answered 200
 * for the latest settled turn. `saving`: a turn has settled since. `not_saving`: with its reason.
 */
export type SaveState =
  | { kind: "none" }
  | { kind: "saved" }
  | { kind: "saving"; message: string | null }
  | { kind: "not_saving"; reason: Reason; message: string };

/** A save: the revision that it changes, and the ordinal of the first turn that it replaces. */
export interface Save<Body> {
  from: number;
  body: Body;
}

/** Outcome of a save that the server refused for good; every other error is tried again. */
export interface Refusal {
  reason: Reason;
  message: string;
}

export interface Port<Body> {
  /** Returns the body of a save of the settled turns from an ordinal; null if none has settled. */
  body: (baseRevision: number, from: number) => Body | null;
  /** Sends a save and returns the new revision. */
  send: (body: Body) => Promise<number>;
  /** Returns the refusal that an error states, or null. */
  refusalOf: (error: unknown) => Refusal | null;
  messageOf: (error: unknown) => string;
  onChange: (state: SaveState) => void;
  setTimer: (run: () => void, ms: number) => unknown;
  clearTimer: (timer: unknown) => void;
}

export class Saver<Body> {
  /** Revision of the saved chat; 0 if the server has none. */
  revision: number;
  state: SaveState;

  private readonly port: Port<Body>;
  /** Ordinal of the first turn that is not saved; null if all are. */
  private dirtyFrom: number | null = null;
  /** The latest save that was sent. It stays until its outcome is known, so that a repetition is equal. */
  private pending: Save<Body> | null = null;
  private isSending = false;
  private failures = 0;
  private timer: unknown = null;
  private isTemporary = false;
  private isClosed = false;

  constructor(port: Port<Body>, revision = 0) {
    this.port = port;
    this.revision = revision;
    this.state = revision > 0 ? { kind: "saved" } : { kind: "none" };
  }

  /** A turn has settled: it has ended, was stopped, or failed. */
  settled(ordinal: number): void {
    this.dirtyFrom = Math.min(this.dirtyFrom ?? ordinal, ordinal);
    if (this.isTemporary || this.isClosed) return;
    if (this.state.kind !== "not_saving") this.set({ kind: "saving", message: null });
    this.schedule(DEBOUNCE_MS);
  }

  /** A turn and all behind it were replaced by a turn that has not settled yet. */
  edited(ordinal: number): void {
    if (this.dirtyFrom === null) return;
    this.dirtyFrom = Math.min(this.dirtyFrom, ordinal);
    if (this.timer !== null && !this.isTemporary) this.schedule(DEBOUNCE_MS);
  }

  /** Turns saving off, or on again with all turns. */
  setTemporary(isTemporary: boolean, turns: number): void {
    this.isTemporary = isTemporary;
    this.cancelTimer();
    if (isTemporary) this.set({ kind: "none" });
    else if (turns > 0) this.settled(0);
  }

  /** A chat was deleted or the limit was raised: a chat that waits for it saves itself. */
  capacityChanged(): void {
    if (this.isWaiting("full")) void this.save();
  }

  isWaiting(reason: Reason): boolean {
    return this.state.kind === "not_saving" && this.state.reason === reason && !this.isClosed;
  }

  /** Saves immediately. */
  saveNow(): void {
    if (this.hasUnsaved()) void this.save();
  }

  /** Whether a settled turn is not saved, and would be. */
  hasUnsaved(): boolean {
    return !this.isTemporary && !this.isClosed && (this.pending !== null || this.dirtyFrom !== null);
  }

  /** Returns the save that is due, for a request that may end after the page. */
  takeUnsaved(): Body | null {
    if (!this.hasUnsaved() || this.isWaiting("conflict") || this.isWaiting("refused")) return null;
    return this.next()?.body ?? null;
  }

  /** The server has the chat elsewhere or no more: nothing is saved from now on. */
  close(): void {
    this.isClosed = true;
    this.cancelTimer();
  }

  private set(state: SaveState): void {
    this.state = state;
    this.port.onChange(state);
  }

  private schedule(ms: number): void {
    this.cancelTimer();
    this.timer = this.port.setTimer(() => {
      this.timer = null;
      void this.save();
    }, ms);
  }

  private cancelTimer(): void {
    if (this.timer !== null) this.port.clearTimer(this.timer);
    this.timer = null;
  }

  /** Returns the pending save, or else a new one of all settled turns that are not saved. */
  private next(): Save<Body> | null {
    if (this.pending) return this.pending;
    if (this.dirtyFrom === null) return null;
    const body = this.port.body(this.revision, this.dirtyFrom);
    return body === null ? null : { from: this.dirtyFrom, body };
  }

  private async save(): Promise<void> {
    if (this.isSending || this.isTemporary || this.isClosed) return;
    const isRepeated = this.pending !== null;
    const save = this.next();
    if (!save) return;
    this.cancelTimer();
    this.isSending = true;
    if (!isRepeated) this.dirtyFrom = null;
    this.pending = save;
    try {
      this.revision = await this.port.send(save.body);
      this.pending = null;
      this.failures = 0;
      this.isSending = false;
      this.finish();
    } catch (error) {
      this.isSending = false;
      this.fail(save, error);
    }
  }

  private finish(): void {
    if (this.isTemporary || this.isClosed) return;
    if (this.dirtyFrom === null) {
      this.set({ kind: "saved" });
      return;
    }
    // Turns have settled during the save.
    this.set({ kind: "saving", message: null });
    if (this.timer === null) void this.save();
  }

  private fail(save: Save<Body>, error: unknown): void {
    if (this.isClosed || this.isTemporary) return;
    const refusal = this.port.refusalOf(error);
    if (refusal) {
      // The server has changed nothing: the next save has the turns of then.
      this.pending = null;
      this.failures = 0;
      this.dirtyFrom = Math.min(this.dirtyFrom ?? save.from, save.from);
      this.set({ kind: "not_saving", ...refusal });
      return;
    }
    this.set({ kind: "saving", message: this.port.messageOf(error) });
    const delay = Math.min(FIRST_RETRY_MS * 2 ** this.failures, MAX_RETRY_MS);
    this.failures += 1;
    // A turn that has settled in the meantime has started the debounce again.
    if (this.timer === null) this.schedule(delay);
  }
}
