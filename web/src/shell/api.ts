// The only place that sends requests.

import { signal } from "@preact/signals";

/** Whether this page is the console of the operators. */
export const isOperator = document.documentElement.dataset.console === "operator";

/** Path of the API reference of this listener. */
export const DOCUMENTATION = isOperator ? "/admin/docs" : "/docs";

const API = isOperator ? "/console/admin/v1" : "/console/api/v1";

/** Path of the public API for sessions. */
export const PUBLIC_API = "/console/v1";

/** A request that failed, or whose response was an error. */
export class ApiError extends Error {
  readonly status: number;
  readonly code: string;
  readonly param: string | null;
  readonly requestId: string | null;
  /** Seconds from the `retry-after` header. */
  readonly retryAfter: number | null;

  constructor(
    message: string,
    status: number,
    code: string,
    param: string | null = null,
    requestId: string | null = null,
    retryAfter: number | null = null,
  ) {
    super(message);
    this.status = status;
    this.code = code;
    this.param = param;
    this.requestId = requestId;
    this.retryAfter = retryAfter;
  }

  /** Whether no response arrived. */
  get isNetwork(): boolean {
    return this.status === 0;
  }
}

/** Whether the last request reached the server. */
export const online = signal(navigator.onLine);

/** Increases when the connection returns; screens that failed load again. */
export const reconnections = signal(0);

/** Milliseconds between attempts while the server cannot be reached. */
const RETRY_MS = 8000;

let retry: ReturnType<typeof setTimeout> | undefined;

export function tryAgain(): void {
  reconnections.value += 1;
}

function setOffline(): void {
  online.value = false;
  clearTimeout(retry);
  retry = setTimeout(tryAgain, RETRY_MS);
}

window.addEventListener("offline", setOffline);
window.addEventListener("online", tryAgain);

interface Hooks {
  /** Id of the account that is shown. */
  account: () => string | null;
  /** Called when the session has ended. */
  signedOut: () => void;
  /** Asks for the password. Returns whether the proof succeeded. */
  stepUp: () => Promise<boolean>;
}

const hooks: Hooks = {
  account: () => null,
  signedOut: () => undefined,
  stepUp: () => Promise.resolve(false),
};

export function setHooks(given: Partial<Hooks>): void {
  Object.assign(hooks, given);
}

export type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

export interface RequestOptions {
  /** Sent as JSON. */
  body?: unknown;
  /** Whether the request concerns the account that is shown, or the id of an account. The default is the person. */
  account?: boolean | string;
  /** Lets the request end after the page was left. Its body must be at most 64 KiB. */
  keepalive?: boolean;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

/**
 * Sends a request and returns the body of the response. A path that begins with `/console/` is
 * complete; another is a path of the console API.
 */
export async function request<T>(method: Method, path: string, options: RequestOptions = {}): Promise<T> {
  return read<T>(await open(method, path, options));
}

/** Sends a request and returns its response, for bodies that are no JSON, such as files and events. */
export async function open(method: Method, path: string, options: RequestOptions = {}): Promise<Response> {
  return withProof(() => send(method, path, options));
}

async function withProof<T>(attempt: () => Promise<T>): Promise<T> {
  try {
    return await attempt();
  } catch (error) {
    if (error instanceof ApiError && error.param === "step_up" && (await hooks.stepUp())) return attempt();
    throw error;
  }
}

/** Requests a file, and returns its content. The path is as for `request`. */
export async function requestFile(path: string, options: RequestOptions = {}): Promise<Blob> {
  return (await open("GET", path, options)).blob();
}

function headersOf(options: RequestOptions): Record<string, string> {
  const account = options.account === true ? hooks.account() : options.account;
  return { "x-tollgate-account": account || "-", ...options.headers };
}

function addressOf(path: string): string {
  return path.startsWith("/console/") ? path : API + path;
}

function unreachable(): ApiError {
  setOffline();
  return new ApiError("The server cannot be reached. Check your connection and try again.", 0, "network");
}

/** Returns the response to a request that `head.ts` has sent, once; null if there is none or it failed. */
async function takeEarly(init: RequestInit, name: string): Promise<Response | null> {
  // After a change, all data is loaded anew.
  if (init.method !== "GET") window.early?.clear();
  const early = window.early?.get(name);
  window.early?.delete(name);
  const response = await early?.catch(() => null);
  return response?.ok ? response : null;
}

async function send(method: Method, path: string, options: RequestOptions): Promise<Response> {
  const headers = headersOf(options);
  const init: RequestInit = { method, headers, credentials: "same-origin", cache: "no-store" };
  if (options.body !== undefined) {
    headers["content-type"] = "application/json";
    init.body = JSON.stringify(options.body);
  }
  if (options.signal) init.signal = options.signal;
  if (options.keepalive) init.keepalive = true;
  let response: Response;
  try {
    response = (await takeEarly(init, `${headers["x-tollgate-account"]} ${addressOf(path)}`)) ?? (await fetch(addressOf(path), init));
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw unreachable();
  }
  online.value = true;
  clearTimeout(retry);
  if (!response.ok) await read(response);
  return response;
}

/** Sends a form and reports the share that has been sent, from 0 to 1. */
export function upload<T>(path: string, form: FormData, onProgress: (share: number) => void, signal: AbortSignal): Promise<T> {
  return withProof(
    () =>
      new Promise<T>((done, fail) => {
        // `fetch` reports no progress of uploads.
        const call = new XMLHttpRequest();
        call.open("POST", addressOf(path));
        for (const [name, value] of Object.entries(headersOf({ account: true }))) call.setRequestHeader(name, value);
        call.upload.onprogress = (event) => event.lengthComputable && onProgress(event.loaded / event.total);
        call.onerror = () => fail(unreachable());
        call.onabort = () => fail(new ApiError("The upload was cancelled.", -1, "cancelled"));
        call.onload = () => {
          const names = ["retry-after", "x-request-id"];
          const headers = names.map((name): [string, string] => [name, call.getResponseHeader(name) ?? ""]);
          read<T>(new Response(call.responseText, { status: call.status, headers })).then(done, fail);
        };
        signal.addEventListener("abort", () => call.abort());
        call.send(form);
      }),
  );
}

/**
 * Sends a request of the account that is shown, and returns the response of any status. The path is
 * complete.
 */
export async function exchange(method: Method, path: string, init: Pick<RequestInit, "body" | "signal"> & { headers?: Record<string, string> }): Promise<Response> {
  const headers = { ...init.headers, "x-tollgate-account": hooks.account() ?? "-" };
  const attempt = () => fetch(path, { ...init, method, headers, credentials: "same-origin", cache: "no-store" });
  const response = await attempt();
  if (response.status !== 403) return response;
  const body = (await response.clone().json().catch(() => null)) as { error?: { param?: string } } | null;
  return body?.error?.param === "step_up" && (await hooks.stepUp()) ? attempt() : response;
}

/** Requests a document of the page itself, which needs no session. */
export async function fetchDocument(path: string, signal?: AbortSignal): Promise<Response> {
  const init: RequestInit = { credentials: "omit" };
  if (signal) init.signal = signal;
  let response: Response;
  try {
    response = await fetch(path, init);
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError("The server cannot be reached. Check your connection and try again.", 0, "network");
  }
  if (!response.ok) await read(response);
  return response;
}

/** Returns the body of a response, or throws its error. */
export async function read<T>(response: Response): Promise<T> {
  const body: unknown = await response.json().catch(() => null);
  if (response.ok) return body as T;
  const error = (body as { error?: { message?: string; code?: string; param?: string | null } } | null)?.error;
  const retryAfter = Number.parseInt(response.headers.get("retry-after") ?? "", 10);
  const failure = new ApiError(
    error?.message ?? `The server answered with status ${response.status}.`,
    response.status,
    error?.code ?? "unknown",
    error?.param ?? null,
    response.headers.get("x-request-id") || null,
    Number.isNaN(retryAfter) ? null : retryAfter,
  );
  if (failure.status === 401 && failure.code === "invalid_session") hooks.signedOut();
  throw failure;
}

/** Returns an error of a request, or wraps another error. */
export function toApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  return new ApiError(error instanceof Error ? error.message : String(error), -1, "unexpected");
}
