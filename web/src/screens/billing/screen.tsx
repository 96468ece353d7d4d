import { Chip, Meter, type Tone } from "../../parts/data.tsx";
import { ErrorState, Skeleton } from "../../parts/states.tsx";
import { request } from "../../shell/api.ts";
import { add, amount, date, dayTime, fromUnits, isZero, share, toUnits } from "../../shell/format.ts";
import { useLive } from "../../shell/live.ts";
import { Page } from "../../shell/page.tsx";
import { useResource } from "../../shell/resource.ts";
import { account } from "../../shell/session.ts";
import type { AccountUsage, Balance, Plans } from "../../shell/types.ts";
import { usage } from "../../shell/usage.ts";
import { Lots, Source } from "./lots.tsx";
import { Statements } from "./statements.tsx";

/** Milliseconds between two loads of the balance. */
const RELOAD_MS = 4000;

const DAY_MS = 24 * 60 * 60 * 1000;

/** Balance, plan, lots and statements of the account that is shown. */
export function Screen() {
  const id = account.value?.id ?? null;
  const balance = useResource(id, (signal) => request<Balance>("GET", "/balance", { account: true, signal }));
  const plans = useResource(id, (signal) => request<Plans>("GET", "/plans", { account: true, signal }));
  useLive("balance", balance.reload, RELOAD_MS);
  return (
    <Page title="Billing">
      <div class="bill">
        <section aria-label="Balance">
          {balance.error && !balance.data ? (
            <ErrorState what="The balance" error={balance.error} onRetry={balance.reload} />
          ) : (
            <BalanceBlock balance={balance.data} usage={usage.value.data} />
          )}
        </section>
        <section aria-label="Plan">
          {plans.error && !plans.data ? (
            <ErrorState what="The plan" error={plans.error} onRetry={plans.reload} />
          ) : (
            <PlanBlock plans={plans.data} plan={usage.value.data ? usage.value.data.plan : undefined} />
          )}
        </section>
      </div>
      <div class="half">
        <Lots />
        <Statements />
      </div>
    </Page>
  );
}

function BalanceBlock(props: { balance: Balance | null; usage: AccountUsage | null }) {
  const { balance } = props;
  if (!balance) {
    return (
      <>
        <span class="muted t12">Balance</span>
        <Skeleton width="160px" height={40} />
        <Skeleton width="100%" height={10} />
        <Skeleton width="60%" height={16} />
      </>
    );
  }
  const total = add(balance.credits, balance.held);
  const label = `${amount(balance.credits, 2)} available, ${amount(balance.held, 2)} on hold`;
  return (
    <>
      <h2 class="muted t12">Balance</h2>
      <div class="huge" title={balance.credits}>
        {amount(balance.credits, 2)}
      </div>
      <Meter isBig isBalance used={share(balance.credits, total)} held={share(balance.held, total)} label={label} />
      <ul class="legend">
        <li>
          <i class="swatch s1" aria-hidden="true" />
          Available <b title={balance.credits}>{amount(balance.credits, 2)}</b>
        </li>
        <li>
          <i class="swatch hatch" aria-hidden="true" />
          On hold <b title={balance.held}>{amount(balance.held, 2)}</b>
        </li>
        {balance.allowance && (
          <li>
            Left of the plan this week <b title={balance.allowance}>{amount(balance.allowance, 2)}</b>
          </li>
        )}
      </ul>
      <p class="muted">
        {isZero(balance.held) ? "Nothing is on hold." : "Running calls hold credits. They return what they do not use."}
        {balance.spendable && (
          <>
            {" "}
            New calls can spend <b class="num">{amount(balance.spendable, 2)}</b>.
          </>
        )}
      </p>
      <Lasting balance={balance} usage={props.usage} />
    </>
  );
}

const RATE_DAYS = 7;
const MAX_FORECAST_DAYS = 365n;

/** Forecasts the end of the balance. An allowance makes the rate of the credits unknown. */
function Lasting(props: { balance: Balance; usage: AccountUsage | null }) {
  if (!props.usage || props.usage.plan) return null;
  const first = new Date(Date.now() - (RATE_DAYS - 1) * DAY_MS).toISOString().slice(0, 10);
  const spent = (props.usage.totals.groups ?? [])
    .filter((day) => day.group >= first)
    .reduce((sum, day) => sum + toUnits(day.cost), 0n);
  const rate = spent / BigInt(RATE_DAYS);
  const days = rate > 0n ? toUnits(props.balance.credits) / rate : MAX_FORECAST_DAYS;
  if (days >= MAX_FORECAST_DAYS || days < 0n) return null;
  return (
    <p class="muted">
      At the rate of the last {RATE_DAYS} days ({amount(fromUnits(rate), 2)} a day), it lasts until{" "}
      <b class="ink">{date(new Date(Date.now() + Number(days) * DAY_MS).toISOString())}</b>.
    </p>
  );
}

const PLAN_STATES: Record<string, readonly [Tone, string]> = {
  active: ["ok", "Active"],
  past_due: ["bad", "Payment overdue"],
  canceled: ["warn", "Cancelled"],
  expired: ["warn", "Expired"],
};

const CADENCES: Record<string, string> = { monthly: "a month", yearly: "a year" };

function PlanBlock(props: { plans: Plans | null; plan: AccountUsage["plan"] | undefined }) {
  const { plans, plan } = props;
  if (!plans || plan === undefined) {
    return (
      <>
        <span class="muted t12">Plan</span>
        <Skeleton width="120px" height={20} />
        <Skeleton width="100%" height={10} />
        <Skeleton width="70%" height={16} />
      </>
    );
  }
  if (!plan) {
    return (
      <>
        <h2>No plan</h2>
        <p class="muted">
          Calls are paid from the balance. <Source />
        </p>
        <Offers plans={plans} current={null} />
      </>
    );
  }
  const [tone, state] = PLAN_STATES[plan.status] ?? (["warn", plan.status] as const);
  const week = plan.weekly_window;
  const subscription = plans.subscriptions.find((one) => one.product === "plan" && one.subject === plan.tier);
  const terms = [
    subscription && priceOf(subscription),
    plan.status === "active" && `${plan.cancel_at_period_end ? "ends" : "renews"} on ${date(plan.paid_through)}`,
  ];
  return (
    <>
      <span class="row">
        <h2 class="planname trunc">{plan.tier} plan</h2>
        <Chip tone={tone} dot>
          {state}
        </Chip>
      </span>
      <p class="muted">{terms.filter(Boolean).join(", ")}</p>
      {week ? (
        <div class="stack">
          <span class="row between t12">
            <span class="num" title={week.used}>
              <b>{amount(week.used, 2)}</b> <span class="muted">of {amount(week.limit, 2)} used or held this week</span>
            </span>
            <span class="muted nowrap">resets {dayTime(week.end)}</span>
          </span>
          <Meter isBig used={share(week.used, week.limit)} label={`${amount(week.used, 2)} of ${amount(week.limit, 2)} used`} />
        </div>
      ) : (
        <p class="muted">No week of the plan is open.</p>
      )}
      <Offers plans={plans} current={plan.tier} />
    </>
  );
}

function Offers(props: { plans: Plans; current: string | null }) {
  const { current } = props;
  const offers = props.plans.data.filter((offer) => offer.name !== current);
  if (offers.length === 0) return null;
  return (
    <div class="stack g4">
      <h3>{current ? "Other plans" : "Plans"}</h3>
      <table class="lines">
        <caption class="sr">Plans</caption>
        <thead>
          <tr>
            <th scope="col">Plan</th>
            <th scope="col" class="n">
              Allowance a week
            </th>
            <th scope="col" class="n">
              Price
            </th>
          </tr>
        </thead>
        <tbody>
          {offers.map((offer) => (
            <tr key={offer.name}>
              <td class="planname">{offer.name}</td>
              <td class="n">{amount(offer.allowance, 2)}</td>
              <td class="n">{priceOf(offer)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {current && (
        <p class="muted t12">
          <Source />
        </p>
      )}
    </div>
  );
}

function priceOf(plan: { price: string; cadence: string }): string {
  return `${amount(plan.price, 2)} ${CADENCES[plan.cadence] ?? plan.cadence}`;
}
