import { useEffect, useState } from "preact/hooks";

import { Button } from "../../parts/button.tsx";
import { Card, Chip, Meter, Stat, Stats, Table, type Column } from "../../parts/data.tsx";
import { ErrorState, Skeleton, TableSkeleton } from "../../parts/states.tsx";
import { Outcome, shortEndpoint } from "../../shell/calls.tsx";
import { amount, clock, count, date, dateTime, duration, fromUnits, share, toUnits } from "../../shell/format.ts";
import { useLive } from "../../shell/live.ts";
import { Page } from "../../shell/page.tsx";
import { periodOf } from "../../shell/period.ts";
import { mayReadContents } from "../../shell/roles.ts";
import { href } from "../../shell/router.ts";
import { Snippets } from "../../shell/snippets.tsx";
import type { AccountUsage, UsageRow } from "../../shell/types.ts";
import { loadUsage, PERIOD_DAYS, usage } from "../../shell/usage.ts";
import { useSeries } from "../usage/series.ts";
import { CostByModel } from "./chart.tsx";
import { RunningJobs } from "./jobs.tsx";
import { Todo } from "./todo.tsx";

/** Milliseconds between two loads of the latest calls and totals. */
const RELOAD_MS = 10_000;

/** Balance, plan, cost and the latest calls of the account that is shown. */
export function Screen() {
  const { data, error } = usage.value;
  // The frame loads the usage as well; a return to this page refreshes it.
  const [isReturn] = useState(data !== null);
  useEffect(() => {
    if (isReturn) void loadUsage();
  }, []);
  const period = periodOf("30d");
  const series = useSeries(period, "model");
  useLive(
    "balance",
    () => {
      void loadUsage();
      series.reload();
    },
    RELOAD_MS,
  );
  if (error && !data) {
    return (
      <Page title="Overview">
        <section class="card">
          <ErrorState what="The usage of the account" error={error} onRetry={() => void loadUsage()} />
        </section>
      </Page>
    );
  }
  return (
    <Page title="Overview">
      <Figures data={data} />
      <div class="cols">
        <CostByModel period={period} series={series} />
        <Todo usage={data} />
      </div>
      <div class="cols">
        <LatestCalls data={data} />
        {mayReadContents() && <RunningJobs />}
      </div>
    </Page>
  );
}

function Figures(props: { data: AccountUsage | null }) {
  const { data } = props;
  if (!data) {
    return (
      <Stats>
        {["Balance", "Weekly allowance", `Charged, ${PERIOD_DAYS} days`, `Calls, ${PERIOD_DAYS} days`].map((label) => (
          <Stat key={label} label={label} note={<Skeleton width="96px" />}>
            <Skeleton width="112px" height={24} />
          </Stat>
        ))}
      </Stats>
    );
  }
  const { credits, held } = data.balance;
  const isHeld = toUnits(held) !== 0n;
  const week = data.plan?.weekly_window;
  return (
    <Stats>
      <Stat label="Balance" note={isHeld ? `${amount(held, 2)} on hold for running calls` : "Nothing on hold"}>
        <b title={credits}>{amount(credits, 2)}</b>
      </Stat>
      {data.plan && week ? (
        <Stat
          label={
            <>
              Weekly allowance <Chip>{data.plan.tier}</Chip>
            </>
          }
        >
          <b title={`${week.used}, until ${date(week.end)}`}>
            {amount(week.used, 2)} <small>of {amount(week.limit, 0)}</small>
          </b>
          <Meter used={share(week.used, week.limit)} label={`${amount(week.used, 2)} of ${amount(week.limit, 2)} used`} />
        </Stat>
      ) : (
        <Stat label="Plan" note={data.plan ? `Paid until ${date(data.plan.paid_through)}` : "Calls are paid from the balance"}>
          <b class={data.plan ? undefined : "muted"}>{data.plan ? data.plan.tier : "None"}</b>
        </Stat>
      )}
      <Stat label={`Charged, ${PERIOD_DAYS} days`} note="Credits, allowance included">
        <b title={data.totals.cost}>{amount(data.totals.cost, 2)}</b>
      </Stat>
      <Stat label={`Calls, ${PERIOD_DAYS} days`} note={perCall(data)}>
        <b>{count(data.totals.requests)}</b>
      </Stat>
    </Stats>
  );
}

function perCall(data: AccountUsage): string {
  const { requests, cost } = data.totals;
  if (requests === 0) return "No calls yet";
  const average = toUnits(cost) / BigInt(requests);
  return `${amount(fromUnits(average), 6)} per call on average`;
}

const COLUMNS: Column<UsageRow>[] = [
  {
    label: "Time",
    isOptional: true,
    cell: (row) => (
      <time class="muted" dateTime={row.created_at} title={dateTime(row.created_at)}>
        {clock(row.created_at)}
      </time>
    ),
  },
  {
    label: "Model",
    cell: (row) => (
      <a class="rowlink" href={href(`/calls/${row.id}`)}>
        {row.model ?? row.requested_model ?? "None"}
      </a>
    ),
  },
  { label: "Endpoint", isOptional: true, cell: (row) => <code class="muted">{shortEndpoint(row.endpoint)}</code> },
  { label: "Tokens", isNumber: true, isOptional: true, cell: (row) => count(row.usage.total_tokens) },
  { label: "First output", isNumber: true, isOptional: true, cell: (row) => (row.first_content_ms === null ? "–" : duration(row.first_content_ms)) },
  { label: "Charge", isNumber: true, cell: (row) => <span title={row.cost}>{amount(row.cost, 6)}</span> },
  {
    label: "Outcome",
    cell: (row) => <Outcome outcome={row.outcome} />,
  },
];

function LatestCalls(props: { data: AccountUsage | null }) {
  const rows = props.data?.data;
  return (
    <Card title="Latest calls" action={<a class="btn sm" href={href("/calls")}>All calls</a>}>
      {!rows ? (
        <TableSkeleton columns={["64px", "150px", "96px", "56px"]} rows={6} />
      ) : rows.length === 0 ? (
        <FirstCall />
      ) : (
        <Table caption="Latest calls" columns={COLUMNS} rows={rows} id={(row) => row.id} size="dense" />
      )}
    </Card>
  );
}

function FirstCall() {
  return (
    <div class="in-pad stack g12">
      <h3>No calls yet</h3>
      <p class="muted">
        Each call appears here with its timing, tokens and exact charge. Create a <a href={href("/keys")}>key</a>, and
        make the first call with it. <code>sim/chat</code> is the built-in simulator: it needs no provider.
      </p>
      <Snippets model="sim/chat" />
      <div class="row">
        <Button icon="retry" onClick={() => void loadUsage()}>
          Check again
        </Button>
      </div>
    </div>
  );
}
