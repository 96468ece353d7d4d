import { useEffect, useRef } from "preact/hooks";

import { request } from "./api.ts";
import { useResource } from "./resource.ts";
import { account } from "./session.ts";
import type { ApiKey, List, Member } from "./types.ts";

export interface Names {
  keys: ApiKey[];
  members: Member[];
  /** Name of a key; the end of its id if the key is unknown. */
  key: (id: string) => string;
  /** Name of a member; the end of its id for removed members. */
  member: (id: string) => string;
}

function shortId(id: string): string {
  return `…${id.slice(-6)}`;
}

/**
 * Loads the names of the keys and members of the account that is shown. It loads the keys again
 * when `keyIds` has one that was created since.
 */
export function useNames(keyIds: readonly (string | null)[] = []): Names {
  const id = account.value?.id ?? null;
  const keys = useResource(id, (signal) => request<List<ApiKey>>("GET", "/keys", { account: true, signal }));
  const members = useResource(id, (signal) => request<List<Member>>("GET", "/members", { account: true, signal }));
  const keyList = keys.data?.data ?? [];
  const tried = useRef(new Set<string>());
  const unknown = keyIds.find((one) => one && !tried.current.has(one) && !keyList.some((key) => key.id === one));
  useEffect(() => {
    if (!unknown || !keys.data) return;
    tried.current.add(unknown);
    keys.reload();
  }, [unknown, keys.data]);
  const memberList = members.data?.data ?? [];
  return {
    keys: keyList,
    members: memberList,
    key: (key) => keyList.find((one) => one.id === key)?.name ?? shortId(key),
    member: (member) => {
      const found = memberList.find((one) => one.id === member);
      return found ? found.name || found.email : shortId(member);
    },
  };
}
