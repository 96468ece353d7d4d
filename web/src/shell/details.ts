import { computed, signal } from "@preact/signals";

import { request } from "./api.ts";
import { account } from "./session.ts";
import type { Account } from "./types.ts";

const loaded = signal<Account | null>(null);

/** State and limits of the account that is shown; null while they load. */
export const details = computed(() => (loaded.value?.id === account.value?.id ? loaded.value : null));

/** Whether the account that is shown only allows reading. */
export const isSuspended = computed(() => details.value?.state === "suspended");

export async function loadDetails(): Promise<void> {
  const id = account.value?.id;
  if (!id) return;
  try {
    loaded.value = await request<Account>("GET", "/account", { account: true });
  } catch {
    // The requests of the screen report the same failure.
  }
}
