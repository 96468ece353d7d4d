import { useState } from "preact/hooks";

import { Button } from "../../parts/button.tsx";
import { Card, Meter } from "../../parts/data.tsx";
import { Dialog } from "../../parts/dialog.tsx";
import { ErrorState, Skeleton } from "../../parts/states.tsx";
import { request } from "../../shell/api.ts";
import { compact, count } from "../../shell/format.ts";
import { LimitRequest } from "../../shell/limit-request.tsx";
import { useLive } from "../../shell/live.ts";
import { useResource } from "../../shell/resource.ts";
import { place, setParams } from "../../shell/router.ts";
import { account } from "../../shell/session.ts";
import type { Limit } from "../../shell/types.ts";

interface Texts {
  label: string;
  note: string;
  /** Name in a request for a higher limit. */
  unit: string;
}

const TEXTS: Record<string, Texts> = {
  rpm: { label: "Requests per minute", note: "in this minute", unit: "requests per minute" },
  tpm: { label: "Tokens per minute", note: "in this minute", unit: "tokens per minute" },
  keys: { label: "Keys", note: "keys that are not revoked", unit: "keys" },
  chats: { label: "Saved chats", note: "chats of all members", unit: "saved chats" },
  files: { label: "Files", note: "stored files", unit: "files" },
  files_gib: { label: "Size of all files", note: "GiB", unit: "GiB of files" },
  batch_tokens: { label: "Tokens in batches", note: "in waiting batches", unit: "tokens in batches" },
};

function textsOf(name: string): Texts {
  return TEXTS[name] ?? { label: name, note: "", unit: name };
}

/** Limits of the account with their present use, and how to request higher ones. */
export function Limits() {
  const limits = useResource(account.value?.id ?? null, (signal) =>
    request<{ data: Limit[] }>("GET", "/limits", { account: true, signal }),
  );
  useLive("limits", limits.reload);
  const [isOpen, setOpen] = useState(false);
  const isRequested = place.value.params.has("limits");
  const rows = limits.data?.data;
  const close = () => {
    setOpen(false);
    if (isRequested) setParams({ limits: null });
  };
  return (
    <>
      <Card
        title="Limits"
        note="present use"
        action={
          <Button size="small" disabled={!rows} onClick={() => setOpen(true)}>
            Request higher limits
          </Button>
        }
      >
        {limits.error && !rows ? (
          <ErrorState what="The limits" error={limits.error} onRetry={limits.reload} />
        ) : (
          <ul class="limits">
            {(rows ?? PLACEHOLDERS).map((row) => (
              <li key={row.name}>{rows ? <Row limit={row} /> : <Skeleton width="100%" height={36} />}</li>
            ))}
          </ul>
        )}
      </Card>
      {(isOpen || isRequested) && rows && (
        <Dialog
          title="Request higher limits"
          onClose={close}
          footer={
            <Button kind="primary" autoFocus onClick={close}>
              Close
            </Button>
          }
        >
          <p class="t14">
            Send this message to the contact, and complete it: the limits that you need, and the traffic that you expect.
          </p>
          <LimitRequest wanted={wanted(rows)} />
        </Dialog>
      )}
    </>
  );
}

const PLACEHOLDERS: Limit[] = Object.keys(TEXTS).map((name) => ({ name, limit: 0, used: null }));

/** Share of a limit from which a request for a higher one names it. */
const NEARLY = 0.8;

/** Returns the limits that are nearly reached; all rates if none is. */
function wanted(rows: Limit[]): string[] {
  const near = rows.filter((row) => row.used !== null && row.limit > 0 && row.used / row.limit >= NEARLY);
  const shown = near.length > 0 ? near : rows.filter((row) => row.name === "rpm" || row.name === "tpm");
  return shown.map((row) => `… ${textsOf(row.name).unit} (now ${count(row.limit)})`);
}

function Row(props: { limit: Limit }) {
  const { name, limit, used } = props.limit;
  const { label, note } = textsOf(name);
  const share = used === null ? 0 : limit > 0 ? used / limit : 1;
  const text = used === null ? `At most ${compact(limit)}` : `${compact(used)} of ${compact(limit)}`;
  return (
    <>
      <span class="row between">
        <span class="strong5">{label}</span>
        <span class="num" title={count(limit)}>
          {text}
        </span>
      </span>
      {used === null ? <span class="meter" /> : <Meter used={share} label={`${text} used`} />}
      <span class="muted t12">
        {share >= 1 ? <span class="bad">Reached. </span> : share >= 0.9 && <span class="warn">Nearly reached. </span>}
        {note}
      </span>
    </>
  );
}
