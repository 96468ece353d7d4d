import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";

import { Button } from "../../parts/button.tsx";
import { Chip, type Tone } from "../../parts/data.tsx";
import { Icon } from "../../parts/icon.tsx";
import { ErrorState, Skeleton } from "../../parts/states.tsx";
import { notify, notifyFailure } from "../../parts/toast.tsx";
import { PUBLIC_API, request } from "../../shell/api.ts";
import { duration } from "../../shell/format.ts";
import { useResource } from "../../shell/resource.ts";
import { href } from "../../shell/router.ts";
import { account } from "../../shell/session.ts";
import type { Job } from "../../shell/types.ts";
import { loadUsage } from "../../shell/usage.ts";
import { isEnded, outputsOf, phaseLabel, STATUSES, type Output } from "../jobs/jobs.ts";
import { useJobEvents, type JobEvent } from "../jobs/live.ts";
import { shortName } from "./catalog.ts";
import { trimmed } from "./forms.tsx";

const STORED = "tollgate.playground.jobs";
const MAX_JOBS = 12;

/** Ids of the jobs of a mode in this tab, newest first. They survive a reload. */
function readJobs(mode: string): string[] {
  try {
    const stored: unknown = JSON.parse(sessionStorage.getItem(`${STORED}.${account.peek()?.id}.${mode}`) ?? "[]");
    return Array.isArray(stored) ? stored.filter((id) => typeof id === "string") : [];
  } catch {
    return [];
  }
}

export function useJobs(mode: string): { jobs: string[]; add: (id: string) => void; remove: (id: string) => void } {
  const [jobs, setJobs] = useState(() => readJobs(mode));
  const store = (next: string[]) => {
    setJobs(next);
    try {
      sessionStorage.setItem(`${STORED}.${account.peek()?.id}.${mode}`, JSON.stringify(next));
    } catch {
      // The jobs are shown until the page is closed.
    }
  };
  return {
    jobs,
    add: (id) => store([id, ...readJobs(mode)].slice(0, MAX_JOBS)),
    remove: (id) => store(readJobs(mode).filter((one) => one !== id)),
  };
}

function useJob(id: string) {
  const path = `${PUBLIC_API}/jobs/${encodeURIComponent(id)}`;
  return useResource(id, (signal) => request<Job>("GET", path, { account: true, signal }));
}

interface JobTexts {
  running: string;
  done: string;
  /** What a cancelled or failed job costs. */
  charge?: string;
}

/** A job with its progress and its result. */
export function JobCard(props: {
  id: string;
  /** Number of outputs that the job will have. */
  count?: number;
  texts: JobTexts;
  onGone: () => void;
  /** Shows the steps of a running job. */
  live?: (events: JobEvent[]) => ComponentChildren;
  /** Shows a result that is no image and no video. */
  result?: (job: Job) => ComponentChildren;
}) {
  const { id, texts } = props;
  const job = useJob(id);
  const [isCancelling, setCancelling] = useState(false);
  const events = useJobEvents(id, () => {
    job.reload();
    void loadUsage();
  });
  const isGone = job.error?.status === 404;
  useEffect(() => {
    if (isGone) props.onGone();
  }, [isGone]);
  const { data } = job;
  if (!data) {
    return job.error ? (
      <ErrorState what="The job" error={job.error} onRetry={job.reload} />
    ) : (
      <div class="stack g12">
        <Skeleton width="40%" height={20} />
        <Skeleton width="100%" height={200} />
      </div>
    );
  }
  const isRunning = !isEnded(data.status);
  const last = events.filter((event) => event.type === "job.progress").at(-1);
  const progress = last?.progress ?? data.progress;
  const status = STATUSES.find((one) => one.value === data.status);
  const cancel = () => {
    setCancelling(true);
    request<Job>("POST", `${PUBLIC_API}/jobs/${encodeURIComponent(id)}/cancel`, { body: {}, account: true }).then(
      (changed) => {
        job.set(changed);
        notify("Cancellation requested");
      },
      (error: unknown) => {
        setCancelling(false);
        notifyFailure("Not cancelled", error);
      },
    );
  };
  return (
    <section class="job" aria-label={`${isRunning ? texts.running : texts.done}, ${id}`}>
      <header class="row wrap">
        <h2>{isRunning ? texts.running : data.status === "completed" ? texts.done : (status?.label ?? data.status)}</h2>
        <Chip {...toneOf(data, status?.tone)} dot>
          {isRunning ? "Running" : (status?.label ?? data.status)}
        </Chip>
        <a class="mono muted t12 trunc" href={href(`/jobs?job=${encodeURIComponent(id)}`)}>
          {id}
        </a>
        <span class="end row">
          <Elapsed job={data} isRunning={isRunning} />
          {data.cost !== null && (
            <b class="num" title={data.cost}>
              {trimmed(data.cost)}
            </b>
          )}
          {isRunning && (
            <Button size="small" isBusy={isCancelling} onClick={cancel}>
              Cancel
            </Button>
          )}
        </span>
      </header>
      {isRunning && (
        <div
          class={progress === null ? "meter big moving" : "meter big"}
          role="progressbar"
          aria-label={texts.running}
          aria-valuemin={0}
          aria-valuemax={100}
          aria-valuenow={progress ?? undefined}
        >
          <i style={{ width: `${progress ?? 30}%` }} />
        </div>
      )}
      <Phases job={data} events={events} isRunning={isRunning} />
      {isRunning && props.live?.(events)}
      {data.error && (
        <div class="pfault">
          <Icon name="warning" class="bad" />
          <span class="stack g4">
            <span class="breakable">{data.error.message}</span>
            {data.error.code && <code class="muted">{data.error.code}</code>}
          </span>
        </div>
      )}
      {props.result && data.status === "completed" ? (
        props.result(data)
      ) : (
        <Tiles job={data} count={isRunning && !props.live ? (props.count ?? 1) : 0} />
      )}
      {isRunning && (
        <p class="muted t12">You can leave this page: the job continues. {texts.charge ?? "You pay only for output that arrives."}</p>
      )}
      <span class="sr" role="status">
        {isRunning ? "" : `${texts.done}: ${status?.label ?? data.status}`}
      </span>
    </section>
  );
}

function toneOf(job: Job, tone: Tone | undefined): { tone?: Tone } {
  if (!isEnded(job.status)) return { tone: "info" };
  return tone ? { tone } : {};
}

const TICK_MS = 1000;

function Elapsed(props: { job: Job; isRunning: boolean }) {
  const { job, isRunning } = props;
  const [, setTick] = useState(0);
  useEffect(() => {
    if (!isRunning) return undefined;
    const timer = setInterval(() => setTick((tick) => tick + 1), TICK_MS);
    return () => clearInterval(timer);
  }, [isRunning]);
  const end = job.completed_at ? Date.parse(job.completed_at) : Date.now();
  return <span class="muted t12 num">{duration(Math.max(0, end - Date.parse(job.created_at)))}</span>;
}

const STARTS: Record<string, string> = { "job.queued": "Accepted", "job.in_progress": "Started", "job.cancelling": "Cancelling" };

const ENDS: Record<string, string> = {
  "job.completed": "Completed",
  "job.failed": "Failed",
  "job.cancelled": "Cancelled",
  "job.expired": "Expired",
};

function Phases(props: { job: Job; events: JobEvent[]; isRunning: boolean }) {
  const steps = props.events
    .map((event) => ({ ...event, label: ENDS[event.type] ?? STARTS[event.type] ?? (event.phase ? phaseLabel(event.phase) : null) }))
    .filter((step, index, all) => step.label !== null && step.label !== all[index - 1]?.label);
  if (steps.length === 0) return null;
  return (
    <ol class="phases">
      {steps.map((step, index) => {
        const next = steps[index + 1];
        const isLast = !next;
        const isCurrent = isLast && props.isRunning;
        return (
          <li key={step.sequence} class={isCurrent ? "c" : "d"}>
            {isCurrent ? <span class="dot pulse" aria-hidden="true" /> : <Icon name={ENDS[step.type] && step.type !== "job.completed" ? "close" : "check"} small />}
            {step.label}
            {next && <span class="num muted">{duration(Date.parse(next.created_at) - Date.parse(step.created_at))}</span>}
          </li>
        );
      })}
    </ol>
  );
}

function Tiles(props: { job: Job; count: number }) {
  const outputs = outputsOf(props.job).filter((output) => output.kind !== "file");
  const waiting = Math.max(0, props.count - outputs.length);
  if (outputs.length + waiting === 0) return null;
  const isVideo = outputs.some((output) => output.kind === "video");
  return (
    <div class={isVideo ? "tiles video" : "tiles"}>
      {outputs.map((output) => (
        <MediaTile key={output.name} output={output} job={props.job} />
      ))}
      {Array.from({ length: waiting }, (_, index) => (
        <div key={index} class="wait">
          {index === 0 ? (
            <>
              <span class="dot pulse" aria-hidden="true" />
              Working
            </>
          ) : (
            "Next"
          )}
        </div>
      ))}
    </div>
  );
}

export function MediaTile(props: { output: Output; job: Job }) {
  const { output, job } = props;
  const [isBroken, setBroken] = useState(false);
  const label = output.prompt ?? `${output.name} of ${job.model}`;
  const isExpired = job.expires_at !== null && Date.parse(job.expires_at) < Date.now();
  return (
    <figure>
      {isBroken || isExpired || !output.source ? (
        <div class="wait">{isExpired ? "Expired" : "Cannot be shown here"}</div>
      ) : output.kind === "video" ? (
        <video src={output.source} controls playsInline preload="metadata" aria-label={label} onError={() => setBroken(true)} />
      ) : (
        <img src={output.source} alt={label} loading="lazy" onError={() => setBroken(true)} />
      )}
      <figcaption>
        <span class="trunc" title={output.note}>
          {output.note || shortName(job.model)}
        </span>
        {output.link && !isExpired && (
          <a
            class="btn sm sq bare"
            href={output.link}
            download={`${job.id}-${output.name.replaceAll(/\W+/g, "-")}`}
            rel="noopener noreferrer"
            aria-label={`Download ${output.name}`}
            title="Download"
          >
            <Icon name="download" />
          </a>
        )}
      </figcaption>
    </figure>
  );
}

/** Jobs of this tab before the latest one. */
export function EarlierJobs(props: { jobs: string[]; onGone: (id: string) => void }) {
  if (props.jobs.length === 0) return null;
  return (
    <section class="stack g12" aria-label="Earlier">
      <div class="row between">
        <h2>Earlier</h2>
        <span class="muted t12">URLs are valid for 7 days</span>
      </div>
      <div class="tiles sm">
        {props.jobs.map((id) => (
          <EarlierJob key={id} id={id} onGone={() => props.onGone(id)} />
        ))}
      </div>
    </section>
  );
}

function EarlierJob(props: { id: string; onGone: () => void }) {
  const job = useJob(props.id);
  const isGone = job.error?.status === 404;
  useEffect(() => {
    if (isGone) props.onGone();
  }, [isGone]);
  const { data } = job;
  if (!data) return <div class="wait">{job.error ? job.error.message : <Skeleton width="100%" height={120} />}</div>;
  const outputs = outputsOf(data).filter((output) => output.kind === "image" || output.kind === "video");
  if (outputs.length === 0) {
    return (
      <a class="wait" href={href(`/jobs?job=${encodeURIComponent(data.id)}`)}>
        {STATUSES.find((one) => one.value === data.status)?.label ?? data.status}
      </a>
    );
  }
  return (
    <>
      {outputs.map((output) => (
        <MediaTile key={output.name} output={output} job={data} />
      ))}
    </>
  );
}
