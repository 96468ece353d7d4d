import { useState } from "preact/hooks";

import { Button } from "../../parts/button.tsx";
import { Card, Meter, Table, type Column } from "../../parts/data.tsx";
import { EmptyState, ErrorState, TableSkeleton } from "../../parts/states.tsx";
import { request } from "../../shell/api.ts";
import { amount, date, isZero, share } from "../../shell/format.ts";
import { Contact } from "../../shell/limit-request.tsx";
import { useResource } from "../../shell/resource.ts";
import { account, service } from "../../shell/session.ts";
import type { List, Lot } from "../../shell/types.ts";

const DAY_MS = 24 * 60 * 60 * 1000;

const KINDS: Record<string, string> = { purchase: "Purchase", promotion: "Promotion", refund: "Refund" };

/** Days before its expiry in which a lot is marked. */
const SOON_DAYS = 30;

/** Tells who adds credits and plans. */
export function Source() {
  const { support } = service.value;
  return <>Credits and plans are added by {support ? <Contact address={support} /> : "the operator of this gateway"}.</>;
}

/** Credits of the account by arrival, in the order in which calls spend them. */
export function Lots() {
  const [isWhole, setWhole] = useState(false);
  const lots = useResource(account.value?.id ?? null, (signal) =>
    request<List<Lot>>("GET", "/lots", { account: true, signal }),
  );
  const all = lots.data?.data ?? [];
  const rows = isWhole ? all : all.filter((lot) => !isZero(lot.remaining));
  const hasUsed = all.some((lot) => isZero(lot.remaining));
  return (
    <Card
      title="Credit lots"
      note="used from the top"
      footer={
        hasUsed && (
          <Button size="small" onClick={() => setWhole(!isWhole)}>
            {isWhole ? "Hide used-up lots" : "Show used-up lots"}
          </Button>
        )
      }
    >
      {lots.error && !lots.data ? (
        <ErrorState what="The lots" error={lots.error} onRetry={lots.reload} />
      ) : !lots.data ? (
        <TableSkeleton columns={["120px", "72px", "64px", "72px"]} rows={3} />
      ) : rows.length === 0 ? (
        <EmptyState title="No credits left">
          <Source />
        </EmptyState>
      ) : (
        <Table caption="Credit lots" columns={COLUMNS} rows={rows} id={(lot) => lot.id} />
      )}
    </Card>
  );
}

const COLUMNS: Column<Lot>[] = [
  { label: "Lot", cell: (lot) => <span class="strong5">{KINDS[lot.kind] ?? lot.kind}</span> },
  { label: "Added", isOptional: true, cell: (lot) => <span class="muted">{date(lot.created_at)}</span> },
  { label: "Amount", isNumber: true, isOptional: true, cell: (lot) => <span title={lot.amount}>{amount(lot.amount, 2)}</span> },
  { label: "Left", isNumber: true, cell: (lot) => <Left lot={lot} /> },
  { label: "Expires", cell: (lot) => <Expiry lot={lot} /> },
];

function Left(props: { lot: Lot }) {
  const { lot } = props;
  return (
    <span class="row justify-end" title={lot.remaining}>
      <span class="lotbar wideonly">
        <Meter
          isBalance
          used={share(lot.remaining, lot.amount)}
          label={`${amount(lot.remaining, 2)} of ${amount(lot.amount, 2)} left`}
        />
      </span>
      <span class="lotleft">{amount(lot.remaining, 2)}</span>
    </span>
  );
}

function Expiry(props: { lot: Lot }) {
  const { lot } = props;
  if (!isZero(lot.expired)) return <span class="muted" title={lot.expired}>{amount(lot.expired, 2)} expired</span>;
  if (!isZero(lot.withdrawn)) return <span class="muted" title={lot.withdrawn}>{amount(lot.withdrawn, 2)} withdrawn</span>;
  if (!lot.expires_at) return <span class="muted">Never</span>;
  const isSoon = !isZero(lot.remaining) && Date.parse(lot.expires_at) - Date.now() < SOON_DAYS * DAY_MS;
  return <span class={isSoon ? "warn" : undefined}>{date(lot.expires_at)}</span>;
}
