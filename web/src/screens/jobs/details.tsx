import { useState } from "preact/hooks";

import { Button } from "../../parts/button.tsx";
import { CopyButton } from "../../parts/code.tsx";
import { ConfirmDialog } from "../../parts/confirm.tsx";
import { Stat, Stats, Status } from "../../parts/data.tsx";
import { Detail, DetailPart } from "../../parts/detail.tsx";
import { Icon } from "../../parts/icon.tsx";
import { Progress } from "../../parts/progress.tsx";
import { Banner, ErrorState, Skeleton } from "../../parts/states.tsx";
import { notify } from "../../parts/toast.tsx";
import { PUBLIC_API, request } from "../../shell/api.ts";
import { amount, dateTime, duration } from "../../shell/format.ts";
import { useResource } from "../../shell/resource.ts";
import { mayMakeCalls } from "../../shell/roles.ts";
import { href } from "../../shell/router.ts";
import type { Job } from "../../shell/types.ts";
import {
  durationOf,
  isEnded,
  isPlan,
  outputsOf,
  phaseLabel,
  priceOf,
  quantitiesOf,
  scenesOf,
  STATUSES,
  typeLabel,
  type Output,
} from "./jobs.ts";
import { useJobEvents, type JobEvent } from "./live.ts";
import { ReportView } from "./report.tsx";

/** Progress, result and cost of a job. */
export function JobDetail(props: {
  id: string;
  /** Record of the list, without the result. */
  known: Job | undefined;
  onClose: () => void;
  onChanged: () => void;
}) {
  const { id, onClose } = props;
  const path = `${PUBLIC_API}/jobs/${encodeURIComponent(id)}`;
  const job = useResource(id, (signal) => request<Job>("GET", path, { account: true, signal }));
  const [isCancelling, setCancelling] = useState(false);
  const events = useJobEvents(id, () => {
    if (job.data && isEnded(job.data.status)) return;
    job.reload();
    props.onChanged();
  });
  const data = job.data ?? (job.error ? props.known : null);
  const queue = events.filter((event) => event.type === "job.progress").at(-1)?.queue_position ?? data?.queue_position;
  if (!data) {
    return (
      <Detail title="Job" onClose={onClose}>
        {job.error ? (
          <ErrorState what="The job" error={job.error} onRetry={job.reload} />
        ) : (
          <>
            <Skeleton width="100%" height={64} />
            <Skeleton width="100%" height={240} />
          </>
        )}
      </Detail>
    );
  }
  const isRunning = !isEnded(data.status);
  return (
    <Detail
      title={
        <>
          {typeLabel(data.type)} <JobStatusText job={data} />
        </>
      }
      note={
        <>
          <code class="breakable">{data.id}</code>
          <CopyButton text={data.id} label="Copy the job id" />
        </>
      }
      onClose={onClose}
      footer={
        isRunning &&
        mayMakeCalls() && (
          <Button kind="danger" icon="stop" onClick={() => setCancelling(true)}>
            Cancel job
          </Button>
        )
      }
    >
      <span class="sr" role="status">
        {isRunning ? "" : `The job is ${data.status}.`}
      </span>
      {job.error && !job.data && <Banner kind="warning">The result could not be loaded. {job.error.message}</Banner>}
      {data.error && (
        <Banner kind="failure">
          <b class="note">{data.error.message}</b>
          {data.error.code && <code class="muted">{data.error.code}</code>}
        </Banner>
      )}
      <Stats>
        <Stat label="Cost">
          <b title={data.cost ?? undefined}>{data.cost ? amount(data.cost, 6) : "–"}</b>
        </Stat>
        <Stat label="Duration">
          <b>{durationOf(data) === null ? "–" : duration(durationOf(data) ?? 0)}</b>
        </Stat>
        {isRunning && (
          <Stat label="Queue position">
            <b>{queue ?? "–"}</b>
          </Stat>
        )}
      </Stats>
      {isRunning && <JobProgress job={data} events={events} />}
      <Result job={data} />
      <Timeline job={data} events={events} />
      <DetailPart title="Request">
        <dl class="kv">
          <dt>Model</dt>
          <dd>{data.model}</dd>
          {quantitiesOf(data).length > 0 && (
            <>
              <dt>Billed</dt>
              <dd class="num">{quantitiesOf(data).join(", ")}</dd>
            </>
          )}
          <dt>Request</dt>
          <dd class="row g4">
            <a class="mono breakable" href={href(`/calls?request_id=${encodeURIComponent(data.request_id)}`)}>
              {data.request_id}
            </a>
            <CopyButton text={data.request_id} label="Copy the request id" />
          </dd>
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
          title="Cancel this job?"
          action="Cancel job"
          onClose={() => setCancelling(false)}
          onConfirm={async () => {
            job.set(await request<Job>("POST", `${path}/cancel`, { body: {}, account: true }));
            notify("Cancellation requested");
            setCancelling(false);
            props.onChanged();
          }}
        >
          A job that has not started costs nothing. Outputs that the provider has already generated are stored and charged.
        </ConfirmDialog>
      )}
    </Detail>
  );
}

export function JobStatusText(props: { job: Job }) {
  const { status, progress } = props.job;
  const found = STATUSES.find((one) => one.value === status);
  const percent = status === "in_progress" && progress !== null ? `, ${progress} %` : "";
  return (
    <Status {...(found?.tone ? { tone: found.tone } : {})} isQuiet={status === "completed" || status === "cancelled"}>
      {(found?.label ?? status) + percent}
    </Status>
  );
}

function JobProgress(props: { job: Job; events: JobEvent[] }) {
  const last = props.events.filter((event) => event.type === "job.progress").at(-1);
  const phase = last?.phase ?? props.job.phase;
  const progress = last ? (last.progress ?? null) : props.job.progress;
  const isCancelling = props.events.some((event) => event.type === "job.cancelling");
  const label = isCancelling ? "Cancelling" : phase ? phaseLabel(phase) : "Queued";
  return <Progress label={label} share={progress === null ? null : progress / 100} />;
}

function Result(props: { job: Job }) {
  const { job } = props;
  const outputs = outputsOf(job);
  const price = priceOf(job);
  const scenes = scenesOf(job);
  const isExpired = job.expires_at !== null && Date.parse(job.expires_at) < Date.now();
  return (
    <>
      {job.type === "research" && job.result && (
        <DetailPart title="Report">
          <ReportView job={job} />
        </DetailPart>
      )}
      {outputs.length > 0 && (
        <DetailPart title="Result" {...(job.expires_at && !isExpired ? { note: `links until ${dateTime(job.expires_at)}` } : {})}>
          {isExpired ? (
            <p class="muted">The media expired on {dateTime(job.expires_at ?? "")} and is deleted.</p>
          ) : (
            <div class={outputs.filter((one) => one.kind === "image").length > 1 ? "outputs two-up" : "outputs"}>
              {outputs.map((output) => (
                <OutputView key={output.name} output={output} job={job} />
              ))}
            </div>
          )}
        </DetailPart>
      )}
      {scenes.length > 0 && (
        <DetailPart title="Storyboard" note={`${scenes.length} scenes`}>
          <ol class="scenes">
            {scenes.map((scene) => (
              <li key={scene.id}>
                {scene.narration && <p>{scene.narration}</p>}
                {scene.prompt && <p class="muted t12">{scene.prompt}</p>}
              </li>
            ))}
          </ol>
        </DetailPart>
      )}
      {price && (
        <DetailPart title={isPlan(job) ? "Price of the rendering" : "Price lines"} note="credits">
          <div class="receipt">
            {price.lines.map((line) => (
              <div key={line.name}>
                <span>{line.name}</span>
                <span class="q trunc">{line.model}</span>
                <i />
                <span>{line.cost}</span>
              </div>
            ))}
            {price.total && (
              <div class="sum">
                <span>{isPlan(job) ? "Total" : "Charge"}</span>
                <i />
                <span>{price.total}</span>
              </div>
            )}
          </div>
        </DetailPart>
      )}
    </>
  );
}

function OutputView(props: { output: Output; job: Job }) {
  const { output, job } = props;
  const [isBroken, setBroken] = useState(false);
  const label = `${output.name} of ${job.model}`;
  const host = output.link && !output.source ? URL.parse(output.link)?.host : null;
  return (
    <figure class="output">
      {output.source && !isBroken && output.kind === "image" && (
        <img src={output.source} alt={output.prompt ?? label} loading="lazy" onError={() => setBroken(true)} />
      )}
      {output.source && !isBroken && output.kind === "video" && (
        <video src={output.source} controls playsInline preload="metadata" aria-label={label} onError={() => setBroken(true)} />
      )}
      {output.source && !isBroken && output.kind === "audio" && (
        <audio src={output.source} controls preload="metadata" aria-label={label} onError={() => setBroken(true)} />
      )}
      {isBroken && <p class="muted t12 in-pad">The media cannot be shown here. Open or download it.</p>}
      <figcaption>
        <span class="grow muted t12 trunc" title={output.note}>
          {host ? `at ${host}` : output.note || output.name}
        </span>
        {output.link && !output.link.startsWith("data:") && (
          <a
            class="btn sm sq bare"
            href={output.link}
            target="_blank"
            rel="noopener noreferrer"
            aria-label={`Open ${output.name}`}
            title="Open"
          >
            <Icon name="open" />
          </a>
        )}
        {output.link && (
          <a
            class="btn sm sq bare"
            href={output.link}
            download={`${job.id}-${output.name.replaceAll(/\W+/g, "-")}`}
            {...(host ? { target: "_blank" } : {})}
            rel="noopener noreferrer"
            aria-label={`Download ${output.name}`}
            title="Download"
          >
            <Icon name="download" />
          </a>
        )}
      </figcaption>
      {output.prompt && <p class="muted t12 in-pad">{output.prompt}</p>}
    </figure>
  );
}

const EVENTS: Record<string, string> = {
  "job.queued": "Accepted",
  "job.in_progress": "Started",
  "job.cancelling": "Cancellation requested",
  "job.completed": "Completed",
  "job.failed": "Failed",
  "job.cancelled": "Cancelled",
  "job.expired": "Expired",
};

/** The phases of a job with the time that each has taken. */
function Timeline(props: { job: Job; events: JobEvent[] }) {
  const steps = props.events
    .map((event) => ({ ...event, label: EVENTS[event.type] ?? (event.phase ? phaseLabel(event.phase) : null) }))
    .filter((event, index, all) => event.label !== null && event.label !== all[index - 1]?.label);
  if (steps.length === 0) return null;
  const start = Date.parse(steps[0]?.created_at ?? "");
  return (
    <DetailPart title="Timeline">
      <ol class="steps">
        {steps.map((step, index) => (
          <li key={step.sequence} class={index === steps.length - 1 && !isEnded(props.job.status) ? "info" : undefined}>
            <span class="dot" aria-hidden="true" />
            <span class="grow">{step.label}</span>
            <span class="muted num">
              {index === 0 ? dateTime(step.created_at) : `+ ${duration(Date.parse(step.created_at) - start)}`}
            </span>
          </li>
        ))}
      </ol>
    </DetailPart>
  );
}
