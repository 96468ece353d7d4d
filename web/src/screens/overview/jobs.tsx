import { useEffect } from "preact/hooks";

import { Card } from "../../parts/data.tsx";
import { Progress } from "../../parts/progress.tsx";
import { EmptyState, ErrorState, Skeleton } from "../../parts/states.tsx";
import { PUBLIC_API, request } from "../../shell/api.ts";
import { unfinishedJobs, useLive } from "../../shell/live.ts";
import { useResource } from "../../shell/resource.ts";
import { href } from "../../shell/router.ts";
import { account } from "../../shell/session.ts";
import type { Job, List } from "../../shell/types.ts";
import { isEnded, phaseLabel, typeLabel } from "../jobs/jobs.ts";

const SHOWN = 4;

/** The newest jobs that run, with their progress. */
export function RunningJobs() {
  const jobs = useResource(account.value?.id ?? null, (signal) =>
    request<List<Job>>("GET", `${PUBLIC_API}/jobs?limit=20`, { account: true, signal }),
  );
  useLive("jobs", jobs.reload);
  const running = (jobs.data?.data ?? []).filter((job) => !isEnded(job.status));
  const number = unfinishedJobs.value;
  useEffect(() => {
    // The number of the first event may be newer than the list.
    if (jobs.data && (number > 0) !== (running.length > 0)) jobs.reload();
  }, [number]);
  return (
    <Card title="Running jobs" action={<a class="btn sm" href={href("/jobs")}>All jobs</a>}>
      {jobs.error && !jobs.data ? (
        <ErrorState what="The jobs" error={jobs.error} onRetry={jobs.reload} />
      ) : !jobs.data ? (
        <div class="in-pad stack g16">
          <Skeleton width="100%" height={32} />
          <Skeleton width="100%" height={32} />
        </div>
      ) : running.length === 0 ? (
        <EmptyState title="No jobs are running">Images, videos, compositions and batches appear here while they run.</EmptyState>
      ) : (
        <ul class="runs">
          {running.slice(0, SHOWN).map((job) => (
            <li key={job.id}>
              <a class="trunc" href={href(`/jobs?job=${encodeURIComponent(job.id)}`)}>
                {typeLabel(job.type)} <span class="muted t12">{job.model}</span>
              </a>
              <Progress
                label={job.status === "queued" ? "Waiting" : phaseLabel(job.phase ?? "claimed")}
                share={job.progress === null ? null : job.progress / 100}
              />
            </li>
          ))}
        </ul>
      )}
    </Card>
  );
}
