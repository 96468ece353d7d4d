import { signal } from "@preact/signals";

import { PUBLIC_API, request, toApiError, type ApiError } from "../../shell/api.ts";
import { account } from "../../shell/session.ts";
import type { List, Model } from "../../shell/types.ts";

interface State {
  account: string | null;
  models: Model[] | null;
  error: ApiError | null;
}

/** Models that the account can use. */
export const catalog = signal<State>({ account: null, models: null, error: null });

export async function loadCatalog(): Promise<void> {
  const id = account.value?.id ?? null;
  if (!id) return;
  if (catalog.value.account !== id) catalog.value = { account: id, models: null, error: null };
  try {
    const list = await request<List<Model>>("GET", `${PUBLIC_API}/models`, { account: id });
    if (account.value?.id === id) catalog.value = { account: id, models: list.data, error: null };
  } catch (error) {
    if (account.value?.id === id) catalog.value = { ...catalog.value, error: toApiError(error) };
  }
}

/** Returns the models of an endpoint. Research models also answer chats, but have their own mode. */
export function modelsFor(endpoint: string): Model[] {
  const isInMode = (model: Model) => model.type !== "research" || endpoint === "/v1/research";
  return (catalog.value.models ?? []).filter((model) => model.endpoints.includes(endpoint) && isInMode(model));
}

export function findModel(id: string): Model | undefined {
  return catalog.value.models?.find((model) => model.id === id);
}

/** Returns the name of a model without its prefix, such as `large` for `acme/large`. */
export function shortName(id: string): string {
  return id.slice(id.indexOf("/") + 1);
}

/** Returns two letters for the prefix of a model. */
export function prefixMark(id: string): string {
  const prefix = id.includes("/") ? id.slice(0, id.indexOf("/")) : id;
  const words = prefix.split(/[-_.]/).filter(Boolean);
  const mark = words.length > 1 ? (words[0]?.[0] ?? "") + (words[1]?.[0] ?? "") : prefix.slice(0, 2);
  return mark.charAt(0).toUpperCase() + mark.slice(1);
}
