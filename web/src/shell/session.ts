import { computed, effect, signal } from "@preact/signals";

import { isOperator, request, setHooks, toApiError, type ApiError } from "./api.ts";
import { href, navigate, ownPath, place } from "./router.ts";
import { store, stored } from "./theme.ts";
import type { AccountSession, Membership, OperatorSession, Role, Service, SessionReply } from "./types.ts";

const ACCOUNT = "tollgate.account";

/** Storage of the account that is shown, while the person is signed in. */
const SIGNED_IN = "tollgate.signed-in";

const MIN_TOKEN_LENGTH = 16;

/** Session of a person; null without a session, undefined while it loads. */
export const session = signal<AccountSession | null | undefined>(undefined);

/** Session of an administrator, in the console of the operators. */
export const operator = signal<OperatorSession | null | undefined>(undefined);

export const service = signal<Service>({ name: "Tollgate", support: null, version: "", sends_mail: false });

/** Error of the request for the session. */
export const sessionError = signal<ApiError | null>(null);

const chosen = signal<string | null>(stored(ACCOUNT));

/** The account that is shown. */
export const account = computed<Membership | null>(() => {
  const accounts = session.value?.accounts ?? [];
  return accounts.find((one) => one.id === chosen.value) ?? accounts[0] ?? null;
});

/** Role of the person in the account that is shown. */
export const role = computed<Role>(() => account.value?.role ?? "viewer");

// The next page requests data of this account together with the session.
effect(() => {
  if (!isOperator && session.value !== undefined) store(SIGNED_IN, account.value?.id ?? null);
});

const current = computed(() => (isOperator ? operator.value : session.value));

export const isSignedIn = computed(() => !!current.value);

export const isSessionLoading = computed(() => current.value === undefined);

/**
 * Token of a sign-in link. It is only in memory: the address and the history lose it when the page
 * reads it.
 */
export const signInToken = signal<string | null>(takeToken());

window.addEventListener("hashchange", () => {
  signInToken.value = takeToken() ?? signInToken.value;
});

function takeToken(): string | null {
  const token = location.hash.slice(1);
  if (place.value.path !== "/sign-in" || token.length < MIN_TOKEN_LENGTH) return null;
  history.replaceState(null, "", location.pathname + location.search);
  return token;
}

setHooks({
  account: () => account.value?.id ?? null,
  signedOut: () => {
    if (!isSignedIn.value) return;
    clear();
    const here = href(place.value.path) + location.search;
    navigate(`/sign-in?next=${encodeURIComponent(here)}&ended=1`, { replace: true });
  },
});

function clear(): void {
  session.value = null;
  operator.value = null;
}

export async function loadSession(): Promise<void> {
  sessionError.value = null;
  try {
    const reply = await request<SessionReply<never>>("GET", "/session");
    if (reply.service) service.value = reply.service;
    setSession(reply.session);
  } catch (error) {
    sessionError.value = toApiError(error);
  }
}

/** Takes a session from a response. */
export function setSession(next: AccountSession | OperatorSession | null): void {
  if (isOperator) operator.value = next as OperatorSession | null;
  else session.value = next as AccountSession | null;
}

export function chooseAccount(id: string): void {
  chosen.value = id;
  store(ACCOUNT, id);
  navigate("/overview");
}

/** Changes the name of the account that is shown, in the session. */
export function renameAccount(name: string): void {
  const old = session.value;
  if (!old) return;
  const id = account.value?.id;
  const accounts = old.accounts.map((one) => (one.id === id ? { ...one, name } : one));
  session.value = { ...old, accounts };
}

/** Opens the page that was requested before the sign-in. */
export function continueAfterSignIn(): void {
  navigate(ownPath(place.value.params.get("next")), { replace: true });
}

export async function signOut(): Promise<void> {
  await request("POST", "/sign-out", { body: {} });
  clear();
  navigate("/sign-in", { replace: true });
}
