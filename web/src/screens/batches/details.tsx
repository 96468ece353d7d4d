import { useEffect, useRef, useState } from "preact/hooks";

import { Button } from "../../parts/button.tsx";
import { CopyButton } from "../../parts/code.tsx";
import { ConfirmDialog } from "../../parts/confirm.tsx";
import { Stat, Stats, Status, TableFrame } from "../../parts/data.tsx";
import { Detail, DetailPart } from "../../parts/detail.tsx";
import { Banner, ErrorState, Skeleton } from "../../parts/states.tsx";
import { notify, notifyFailure } from "../../parts/toast.tsx";
import { PUBLIC_API, request } from "../../shell/api.ts";
import { downloadFile } from "../../shell/files.ts";
import { amount, count, dateTime, fromSeconds, plural, relative } from "../../shell/format.ts";
import { usePolling } from "../../shell/polling.ts";
import { useResource } from "../../shell/resource.ts";
import { mayMakeCalls, mayReadContents } from "../../shell/roles.ts";
import type { Batch } from "../../shell/types.ts";
import { endpointLabel, isActive, STATUSES } from "./lines.ts";

const POLL_MS = 3000;

/** Progress, results and cost of a batch. */
export function BatchDetail(props: { id: string; onClose: () => void; onChanged: () => void }) {
  const { id, onClose } = props;
  const path = `${PUBLIC_API}/batches/${encodeURIComponent(id)}`;
  const batch = useResource(id, (signal) => request<Batch>("GET", path, { account: true, signal }));
  const [isCancelling, setCancelling] = useState(false);
  const { data } = batch;
  const status = data?.status;
  const known = useRef(status);
  useEffect(() => {
    if (status && known.current && status !== known.current) props.onChanged();
    known.current = status ?? known.current;
  }, [status]);
  usePolling(data !== null && isActive(data.status), POLL_MS, batch.reload);
  if (!data) {
    return (
      <Detail title="Batch" onClose={onClose}>
        {batch.error ? (
          <ErrorState what="The batch" error={batch.error} onRetry={batch.reload} />
        ) : (
          <>
            <Skeleton width="100%" height={64} />
            <Skeleton width="100%" height={160} />
          </>
        )}
      </Detail>
    );
  }
  const { request_counts: counts, usage } = data;
  const mayCancel = mayMakeCalls() && isActive(data.status) && data.status !== "cancelling" && data.status !== "finalizing";
  return (
    <Detail
      title={
        <>
          Batch <BatchStatusText batch={data} />
        </>
      }
      note={
        <>
          <code class="breakable">{data.id}</code>
          <CopyButton text={data.id} label="Copy the batch id" />
        </>
      }
      onClose={onClose}
      footer={
        mayCancel && (
          <Button kind="danger" icon="stop" onClick={() => setCancelling(true)}>
            Cancel batch
          </Button>
        )
      }
    >
      <span class="sr" role="status">
        {isActive(data.status) ? "" : `The batch is ${data.status}.`}
      </span>
      <Stats>
        <Stat label="Cost">
          <b title={data.cost ?? undefined}>{data.cost ? amount(data.cost, 6) : "–"}</b>
        </Stat>
        <Stat label="Completed">
          <b>{count(counts.completed)}</b>
        </Stat>
        <Stat label="Failed">
          <b class={counts.failed > 0 ? "bad" : undefined}>{count(counts.failed)}</b>
        </Stat>
      </Stats>
      <div class="stack g4">
        <div class="row between">
          <span>{isActive(data.status) ? (STATUSES[data.status]?.label ?? data.status) : "Requests"}</span>
          <span class="muted num">
            {count(counts.completed + counts.failed)} of {count(counts.total)}
          </span>
        </div>
        <BatchMeter batch={data} />
      </div>
      {data.errors && data.errors.data.length > 0 && <Faults batch={data} />}
      <DetailPart title="Files" note={isActive(data.status) ? "results at the end" : undefined}>
        {mayReadContents() ? (
          <div class="stack">
            <FileRow
              id={data.output_file_id}
              label="Results"
              name={`${data.id}-results.jsonl`}
              note={plural(counts.completed, "answer")}
            />
            <FileRow
              id={data.error_file_id}
              label="Errors"
              name={`${data.id}-errors.jsonl`}
              note="failed requests and those that were not started"
            />
            <FileRow
              id={data.input_file_id}
              label="Requests"
              name={`${data.id}-requests.jsonl`}
              note={plural(counts.total, "request")}
            />
          </div>
        ) : (
          <p class="muted">Your role does not include the contents of files.</p>
        )}
      </DetailPart>
      {usage && (
        <DetailPart title="Tokens">
          <dl class="kv">
            <dt>Input</dt>
            <dd class="num">
              {count(usage.input_tokens)}
              {usage.input_tokens_details.cached_tokens > 0 && (
                <span class="muted">, {count(usage.input_tokens_details.cached_tokens)} cached</span>
              )}
            </dd>
            <dt>Output</dt>
            <dd class="num">
              {count(usage.output_tokens)}
              {usage.output_tokens_details.reasoning_tokens > 0 && (
                <span class="muted">, {count(usage.output_tokens_details.reasoning_tokens)} reasoning</span>
              )}
            </dd>
          </dl>
        </DetailPart>
      )}
      <DetailPart title="Batch">
        <dl class="kv">
          <dt>Model</dt>
          <dd>{data.model === "-" ? "–" : data.model}</dd>
          <dt>Endpoint</dt>
          <dd>
            {endpointLabel(data.endpoint)} <code class="muted">{data.endpoint}</code>
          </dd>
          <When label="Created" at={data.created_at} />
          <When label="Started" at={data.in_progress_at} />
          <When label="Cancellation" at={data.cancelling_at} />
          <When label="Ended" at={data.completed_at ?? data.failed_at ?? data.expired_at ?? data.cancelled_at} />
          {isActive(data.status) && <When label="Expires" at={data.expires_at} />}
          {Object.entries(data.metadata ?? {}).map(([name, value]) => (
            <>
              <dt key={name}>{name}</dt>
              <dd>{String(value)}</dd>
            </>
          ))}
        </dl>
      </DetailPart>
      {isCancelling && (
        <ConfirmDialog
          title="Cancel this batch?"
          action="Cancel batch"
          onClose={() => setCancelling(false)}
          onConfirm={async () => {
            batch.set(await request<Batch>("POST", `${path}/cancel`, { body: {}, account: true }));
            notify("Cancellation requested");
            setCancelling(false);
            props.onChanged();
          }}
        >
          No further requests start. Requests that run are answered, delivered and charged.
        </ConfirmDialog>
      )}
    </Detail>
  );
}

export function BatchStatusText(props: { batch: Batch }) {
  const { status } = props.batch;
  const { label, tone } = STATUSES[status] ?? { label: status };
  return (
    <Status {...(tone ? { tone } : {})} isQuiet={status === "completed" || status === "cancelled"}>
      {label}
    </Status>
  );
}

/** Completed and failed requests of all. */
export function BatchMeter(props: { batch: Batch }) {
  const { total, completed, failed } = props.batch.request_counts;
  const label = `${plural(completed, "request")} completed, ${count(failed)} failed, of ${count(total)}`;
  const width = (number: number) => `${total > 0 ? (number / total) * 100 : 0}%`;
  return (
    <div class="meter" role="img" aria-label={label}>
      {completed > 0 && <i style={{ width: width(completed) }} />}
      {failed > 0 && <i class="b" style={{ width: width(failed) }} />}
    </div>
  );
}

function When(props: { label: string; at: number | null | undefined }) {
  if (!props.at) return null;
  const time = fromSeconds(props.at);
  return (
    <>
      <dt>{props.label}</dt>
      <dd title={relative(time)}>{dateTime(time)}</dd>
    </>
  );
}

function FileRow(props: { id: string | null | undefined; label: string; name: string; note: string }) {
  const [isBusy, setBusy] = useState(false);
  const { id } = props;
  if (!id) return null;
  const save = () => {
    setBusy(true);
    downloadFile(id, props.name)
      .catch((error: unknown) => notifyFailure("The file was not downloaded", error))
      .finally(() => setBusy(false));
  };
  return (
    <div class="row">
      <span class="grow stack g2">
        <span>
          {props.label} <span class="muted t12">{props.note}</span>
        </span>
        <code class="muted trunc">{id}</code>
      </span>
      <Button size="small" icon="download" isBusy={isBusy} onClick={save}>
        Download<span class="sr"> {props.label.toLowerCase()}</span>
      </Button>
    </div>
  );
}

function Faults(props: { batch: Batch }) {
  const faults = props.batch.errors?.data ?? [];
  return (
    <DetailPart title="Faults of the file" note={plural(faults.length, "fault")}>
      <Banner kind="failure">The batch has not started, and costs nothing. Correct the lines and upload the file again.</Banner>
      <div class="card scrolled">
        <TableFrame label="Faults">
          <table class="dense">
            <caption class="sr">Faults</caption>
            <thead>
              <tr>
                <th scope="col" class="n">
                  Line
                </th>
                <th scope="col">Fault</th>
              </tr>
            </thead>
            <tbody>
              {faults.map((fault, index) => (
                <tr key={index}>
                  <td class="n">{fault.line == null ? "–" : count(fault.line)}</td>
                  <td class="w">
                    {fault.message} <code class="muted">{fault.code}</code>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </TableFrame>
      </div>
    </DetailPart>
  );
}
