import { useEffect, useState } from "preact/hooks";

import { Breakdown } from "../../parts/breakdown.tsx";
import { Button } from "../../parts/button.tsx";
import { Card, Chip, Meter, Stat, Stats, Table, type Column } from "../../parts/data.tsx";
import { EmptyState, ErrorState, Skeleton, TableSkeleton } from "../../parts/states.tsx";
import { request } from "../../shell/api.ts";
import { Outcome, shortEndpoint } from "../../shell/calls.tsx";
import { add, amount, clock, count, date, dateTime, duration, fromUnits, share, toUnits } from "../../shell/format.ts";
import { useLive } from "../../shell/live.ts";
import { Page } from "../../shell/page.tsx";
import { useResource } from "../../shell/resource.ts";
import { href } from "../../shell/router.ts";
import { account } from "../../shell/session.ts";
import { Snippets } from "../../shell/snippets.tsx";
import type { AccountUsage, UsageRow } from "../../shell/types.ts";
import { loadUsage, PERIOD_DAYS, periodQuery, usage } from "../../shell/usage.ts";
import { CostByDay } from "./chart.tsx";
import { Todo } from "./todo.tsx";

const SHOWN_MODELS = 6;

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
  const models = useResource(account.value?.id ?? null, (signal) =>
    request<AccountUsage>("GET", periodQuery("model", 1), { account: true, signal }),
  );
  useLive("balance", () => void loadUsage(), RELOAD_MS);
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
        <CostByDay data={data} />
        <Todo usage={data} />
      </div>
      <div class="cols">
        <LatestCalls data={data} />
        <Card title="Cost by model" note={`${PERIOD_DAYS} days`}>
          {models.error && !models.data ? (
            <ErrorState what="The cost by model" error={models.error} onRetry={models.reload} />
          ) : (
            <CostByModel data={models.data} />
          )}
        </Card>
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

function CostByModel(props: { data: AccountUsage | null }) {
  if (!props.data) {
    return (
      <div class="in-pad stack g16">
        {["90%", "70%", "55%", "30%"].map((width) => (
          <Skeleton key={width} width={width} height={20} />
        ))}
      </div>
    );
  }
  const groups = [...(props.data.totals.groups ?? [])].sort((a, b) => (toUnits(a.cost) < toUnits(b.cost) ? 1 : -1));
  if (groups.length === 0) return <EmptyState title="No cost yet">The models of your calls appear here.</EmptyState>;
  const shown = groups.slice(0, SHOWN_MODELS);
  const rest = groups.slice(SHOWN_MODELS);
  if (rest.length > 0) {
    const cost = rest.reduce((sum, group) => add(sum, group.cost), "0");
    shown.push({ group: `${rest.length} others`, cost, requests: 0 });
  }
  const largest = shown.reduce((most, group) => (toUnits(group.cost) > toUnits(most) ? group.cost : most), "0");
  return (
    <Breakdown
      label="Cost by model"
      rows={shown.map((group) => ({
        id: group.group,
        label: group.group || "No model",
        share: share(group.cost, largest),
        value: amount(group.cost, 2),
        title: group.cost,
        href: group.requests > 0 && group.group ? href(`/calls?model=${encodeURIComponent(group.group)}`) : null,
      }))}
    />
  );
}
