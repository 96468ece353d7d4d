import { Meter } from "../../parts/data.tsx";
import { ErrorState, Skeleton } from "../../parts/states.tsx";
import { request } from "../../shell/api.ts";
import { count } from "../../shell/format.ts";
import { useResource } from "../../shell/resource.ts";
import { account, service } from "../../shell/session.ts";
import type { AccountLimit, List } from "../../shell/types.ts";

const NAMES: Record<string, string> = {
  rpm: "Requests per minute",
  tpm: "Tokens per minute",
  keys: "Keys",
  chats: "Saved chats",
  files: "Files",
  files_gib: "Size of the files, GiB",
  batch_tokens: "Tokens of unfinished batches",
};

/** Limits of the account, and how much of each is used. */
export function Limits() {
  const limits = useResource(account.value?.id ?? null, (signal) =>
    request<List<AccountLimit>>("GET", "/limits", { account: true, signal }),
  );
  const { support } = service.value;
  if (limits.error && !limits.data) {
    return <ErrorState what="The limits" error={limits.error} onRetry={limits.reload} />;
  }
  return (
    <div class="stack g12">
      <ul class="limits">
        {limits.data
          ? limits.data.data.map((limit) => <LimitRow key={limit.name} limit={limit} />)
          : Array.from({ length: 6 }, (_, index) => (
              <li key={index}>
                <Skeleton width="60%" />
              </li>
            ))}
      </ul>
      <p class="muted t12">
        For higher limits, write to {support ?? "the operator of this gateway"} with the account id, the limits that you need
        and the reason.
      </p>
    </div>
  );
}

function LimitRow(props: { limit: AccountLimit }) {
  const { name, limit, used } = props.limit;
  const label = NAMES[name] ?? name;
  const figure = (value: number) => (Number.isInteger(value) ? count(value) : value.toFixed(1));
  return (
    <li>
      <span class="grow">{label}</span>
      {used !== null && (
        <span class="short wideonly">
          <Meter used={limit > 0 ? used / limit : 1} label={`${label}: ${figure(used)} of ${figure(limit)}`} />
        </span>
      )}
      <span class="num muted nowrap figure">
        {used !== null && `${figure(used)} of `}
        {figure(limit)}
      </span>
    </li>
  );
}
