import { Button } from "../../parts/button.tsx";
import { Table, Time, type Column } from "../../parts/data.tsx";
import { Split } from "../../parts/detail.tsx";
import { Filter } from "../../parts/filter.tsx";
import { Pager } from "../../parts/pager.tsx";
import { EmptyState, ErrorState, TableSkeleton } from "../../parts/states.tsx";
import { PUBLIC_API } from "../../shell/api.ts";
import { amount, duration } from "../../shell/format.ts";
import { isLive, useLive } from "../../shell/live.ts";
import { Page } from "../../shell/page.tsx";
import { usePaged } from "../../shell/paging.ts";
import { usePolling } from "../../shell/polling.ts";
import { mayMakeCalls, mayReadContents } from "../../shell/roles.ts";
import { href, place, setParams } from "../../shell/router.ts";
import type { Job } from "../../shell/types.ts";
import { JobDetail, JobStatusText } from "./details.tsx";
import { durationOf, isEnded, STATUSES, typeLabel, TYPES } from "./jobs.ts";

const PAGE_SIZE = 25;
const POLL_MS = 5000;

/** Jobs of the account: images, videos, compositions, batches and responses in the background. */
export function Screen() {
  return mayReadContents() ? (
    <Jobs />
  ) : (
    <Page title="Jobs">
      <EmptyState title="Your role does not include jobs">
        Jobs contain the results of calls. Members, admins and owners can read them.
      </EmptyState>
    </Page>
  );
}

function Jobs() {
  const { params } = place.value;
  const type = TYPES.find((one) => one.value === params.get("type"))?.value ?? "";
  const status = STATUSES.find((one) => one.value === params.get("status"))?.value ?? "";
  const query = { ...(type ? { type } : {}), ...(status ? { status } : {}) };
  const { list, page, next, previous } = usePaged<Job>(`${PUBLIC_API}/jobs`, query, PAGE_SIZE);
  const rows = list.data?.data;
  const opened = params.get("job");
  useLive("jobs", list.reload);
  usePolling(!isLive.value && (rows?.some((job) => !isEnded(job.status)) ?? false), POLL_MS, list.reload);
  const reset = () => setParams({ type: null, status: null });
  return (
    <Page title="Jobs" isFlush>
      <Split
        detail={
          opened && (
            <JobDetail
              key={opened}
              id={opened}
              known={rows?.find((job) => job.id === opened)}
              onClose={() => setParams({ job: null })}
              onChanged={list.reload}
            />
          )
        }
      >
        <div class="filters wrap">
          <Filter label="Type" value={type} options={TYPES} onChange={(value) => setParams({ type: value })} />
          <Filter label="Status" value={status} options={STATUSES} onChange={(value) => setParams({ status: value })} />
          <span class="end muted t12">Records are stored for 30 days</span>
        </div>
        <div class="rows">
          {list.error && !rows ? (
            <ErrorState what="The jobs" error={list.error} onRetry={list.reload} />
          ) : !rows ? (
            <TableSkeleton columns={["96px", "160px", "96px", "72px", "64px", "72px"]} rows={10} />
          ) : rows.length === 0 && (type || status) ? (
            <EmptyState title="No job matches the filters" action={<Button onClick={reset}>Show all jobs</Button>} />
          ) : rows.length === 0 ? (
            <EmptyState
              title="No jobs yet"
              action={
                mayMakeCalls() && (
                  <a class="btn" href={href("/templates")}>
                    Browse the templates
                  </a>
                )
              }
            >
              Requests for images, videos, compositions and batches run as jobs. They appear here with their progress, result and
              cost.
            </EmptyState>
          ) : (
            <Table
              caption="Jobs"
              columns={COLUMNS}
              rows={rows}
              id={(job) => job.id}
              isSelected={(job) => job.id === opened}
            />
          )}
        </div>
        {rows && <Pager page={page} shown={rows.length} next={next} previous={previous} />}
      </Split>
    </Page>
  );
}

/** Returns the address of the details; the screen of batches has those of a batch. */
function addressOf(job: Job): string {
  if (job.type === "batch") return href(`/batches?batch=${encodeURIComponent(job.id.replace("job_", "batch_"))}`);
  const query = new URLSearchParams(place.value.params);
  query.set("job", job.id);
  return href(`/jobs?${query.toString()}`);
}

const COLUMNS: Column<Job>[] = [
  {
    label: "Type",
    cell: (job) => (
      <>
        <a class="rowlink" href={addressOf(job)} aria-label={`${typeLabel(job.type)} ${job.id}`}>
          {typeLabel(job.type)}
        </a>
        <span class="narrow under muted t12">{job.model}</span>
      </>
    ),
  },
  { label: "Model", isOptional: true, cell: (job) => <span class="clip trunc">{job.model}</span> },
  { label: "Status", cell: (job) => <JobStatusText job={job} /> },
  { label: "Accepted", isOptional: true, cell: (job) => <Time at={job.created_at} /> },
  {
    label: "Duration",
    isNumber: true,
    isOptional: true,
    cell: (job) => {
      const ms = durationOf(job);
      return ms === null ? <span class="muted">–</span> : duration(ms);
    },
  },
  {
    label: "Cost",
    isNumber: true,
    cell: (job) => (job.cost ? <span title={job.cost}>{amount(job.cost, 6)}</span> : <span class="muted">–</span>),
  },
];
