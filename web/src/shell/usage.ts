import { signal } from "@preact/signals";

import { PUBLIC_API, request, toApiError, type ApiError } from "./api.ts";
import { account } from "./session.ts";
import type { AccountUsage } from "./types.ts";

/** Days that the totals cover. */
export const PERIOD_DAYS = 30;

const DAY_MS = 24 * 60 * 60 * 1000;

interface State {
  account: string | null;
  data: AccountUsage | null;
  error: ApiError | null;
}

/** Balance, plan, latest calls and cost by day of the account that is shown. */
export const usage = signal<State>({ account: null, data: null, error: null });

/** Returns the query for the last 30 days. */
export function periodQuery(groupBy: "day" | "model", limit: number): string {
  const from = new Date(Date.now() - (PERIOD_DAYS - 1) * DAY_MS).toISOString().slice(0, 10);
  return `${PUBLIC_API}/account/usage?limit=${limit}&from=${from}&group_by=${groupBy}`;
}

export async function loadUsage(): Promise<void> {
  const id = account.value?.id ?? null;
  if (!id) return;
  if (usage.value.account !== id) usage.value = { account: id, data: null, error: null };
  try {
    const data = await request<AccountUsage>("GET", periodQuery("day", 8), { account: true });
    if (account.value?.id === id) usage.value = { account: id, data, error: null };
  } catch (error) {
    if (account.value?.id === id) usage.value = { ...usage.value, error: toApiError(error) };
  }
}

/** Takes a changed balance; the calls and totals stay as they were loaded. */
export function takeBalance(balance: AccountUsage["balance"]): void {
  const { data } = usage.value;
  const { credits, held } = balance;
  if (data) usage.value = { ...usage.value, data: { ...data, balance: { credits, held } } };
}
