import { Button } from "../../parts/button.tsx";
import { Table, Time, type Column } from "../../parts/data.tsx";
import { Split } from "../../parts/detail.tsx";
import { Code } from "../../parts/code.tsx";
import { Pager } from "../../parts/pager.tsx";
import { EmptyState, ErrorState, TableSkeleton } from "../../parts/states.tsx";
import { PUBLIC_API } from "../../shell/api.ts";
import { amount, count, fromSeconds } from "../../shell/format.ts";
import { useLive } from "../../shell/live.ts";
import { Page } from "../../shell/page.tsx";
import { usePaged } from "../../shell/paging.ts";
import { usePolling } from "../../shell/polling.ts";
import { mayMakeCalls } from "../../shell/roles.ts";
import { href, place, setParams } from "../../shell/router.ts";
import type { Batch } from "../../shell/types.ts";
import { CreateDialog } from "./create.tsx";
import { BatchDetail, BatchMeter, BatchStatusText } from "./details.tsx";
import { endpointLabel, isActive } from "./lines.ts";

const PAGE_SIZE = 25;
const POLL_MS = 5000;

const EXAMPLE = `{"custom_id": "first", "method": "POST", "url": "/v1/chat/completions",
 "body": {"model": "sim/chat", "messages": [{"role": "user", "content": "Say hello."}]}}`;

/** Batches of the account. */
export function Screen() {
  const { params } = place.value;
  const { list, page, next, previous } = usePaged<Batch>(`${PUBLIC_API}/batches`, {}, PAGE_SIZE);
  const rows = list.data?.data;
  const opened = params.get("batch");
  const mayCreate = mayMakeCalls();
  const isCreating = params.has("create") && mayCreate;
  useLive("jobs", list.reload);
  usePolling(rows?.some((batch) => isActive(batch.status)) ?? false, POLL_MS, list.reload);
  return (
    <Page
      title="Batches"
      isFlush
      action={
        mayCreate && (
          <Button kind="primary" icon="plus" onClick={() => setParams({ create: "1" })}>
            Create batch
          </Button>
        )
      }
    >
      <Split
        detail={
          opened && (
            <BatchDetail key={opened} id={opened} onClose={() => setParams({ batch: null })} onChanged={list.reload} />
          )
        }
      >
        <div class="rows">
          {list.error && !rows ? (
            <ErrorState what="The batches" error={list.error} onRetry={list.reload} />
          ) : !rows ? (
            <TableSkeleton columns={["180px", "120px", "96px", "140px", "72px", "72px"]} rows={10} />
          ) : rows.length === 0 ? (
            <>
              <EmptyState title="No batches yet">
                A batch runs up to 50,000 requests of one file within 24 hours, at 35 % below the list price. The limits of
                requests and tokens per minute do not apply. Each line of the file is a request:
              </EmptyState>
              <div class="example">
                <Code language="One line of the file" text={EXAMPLE.replace("\n", "")}>
                  {EXAMPLE}
                </Code>
              </div>
            </>
          ) : (
            <Table
              caption="Batches"
              columns={COLUMNS}
              rows={rows}
              id={(batch) => batch.id}
              isSelected={(batch) => batch.id === opened}
            />
          )}
        </div>
        {rows && <Pager page={page} shown={rows.length} next={next} previous={previous} />}
      </Split>
      {isCreating && (
        <CreateDialog
          fileId={params.get("file")}
          onClose={() => setParams({ create: null, file: null })}
          onCreated={(batch) => {
            list.reload();
            setParams({ create: null, file: null, batch: batch.id });
          }}
        />
      )}
    </Page>
  );
}

const SHORT_ID = 8;

const COLUMNS: Column<Batch>[] = [
  {
    label: "Batch",
    cell: (batch) => (
      <a class="rowlink" href={href(`/batches?batch=${encodeURIComponent(batch.id)}`)} title={batch.id}>
        <code>…{batch.id.slice(-SHORT_ID)}</code>
      </a>
    ),
  },
  { label: "Model", isOptional: true, cell: (batch) => <span class="clip trunc">{batch.model === "-" ? "–" : batch.model}</span> },
  { label: "Endpoint", isOptional: true, cell: (batch) => <span class="muted">{endpointLabel(batch.endpoint)}</span> },
  { label: "Status", cell: (batch) => <BatchStatusText batch={batch} /> },
  {
    label: "Progress",
    cell: (batch) => {
      const { total, completed, failed } = batch.request_counts;
      return (
        <span class="row">
          <span class="short wideonly">
            <BatchMeter batch={batch} />
          </span>
          <span class="muted t12 num">
            {count(completed + failed)} of {count(total)}
          </span>
        </span>
      );
    },
  },
  { label: "Created", isOptional: true, cell: (batch) => <Time at={fromSeconds(batch.created_at)} /> },
  {
    label: "Cost",
    isNumber: true,
    cell: (batch) => (batch.cost ? <span title={batch.cost}>{amount(batch.cost, 6)}</span> : <span class="muted">–</span>),
  },
];
