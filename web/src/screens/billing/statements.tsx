import { useState } from "preact/hooks";

import { Button } from "../../parts/button.tsx";
import { Card, TableFrame } from "../../parts/data.tsx";
import { Dialog } from "../../parts/dialog.tsx";
import { Skeleton, TableSkeleton } from "../../parts/states.tsx";
import { request } from "../../shell/api.ts";
import { shortEndpoint } from "../../shell/calls.tsx";
import { add, amount, count, isZero, plural, whole } from "../../shell/format.ts";
import { details } from "../../shell/details.ts";
import { useResource, type Resource } from "../../shell/resource.ts";
import { saveCsv } from "../../shell/save.ts";
import { account } from "../../shell/session.ts";
import type { Statement } from "../../shell/types.ts";

const FIRST_SHOWN = 4;
const MORE = 6;

const MONTH = new Intl.DateTimeFormat("en-GB", { month: "long", timeZone: "UTC" });
const MONTH_YEAR = new Intl.DateTimeFormat("en-GB", { month: "long", year: "numeric", timeZone: "UTC" });

function monthName(month: string): string {
  const start = new Date(`${month}-01T00:00:00Z`);
  const isThisYear = start.getUTCFullYear() === new Date().getUTCFullYear();
  return (isThisYear ? MONTH : MONTH_YEAR).format(start);
}

function currentMonth(): string {
  return new Date().toISOString().slice(0, 7);
}

/** Returns the months since the account exists, the latest first. */
function monthsSince(created: string): string[] {
  const months: string[] = [];
  const date = new Date(`${currentMonth()}-01T00:00:00Z`);
  const first = created.slice(0, 7);
  while (date.toISOString().slice(0, 7) >= first) {
    months.push(date.toISOString().slice(0, 7));
    date.setUTCMonth(date.getUTCMonth() - 1);
  }
  return months;
}

/** Statements of the account by month. A row opens the statement. */
export function Statements() {
  const created = details.value?.created_at;
  const [shown, setShown] = useState(FIRST_SHOWN);
  const [opened, setOpened] = useState<Statement | null>(null);
  const months = created ? monthsSince(created) : null;
  return (
    <Card
      title="Statements"
      note="by month, UTC"
      footer={
        months &&
        months.length > shown && (
          <Button size="small" onClick={() => setShown(shown + MORE)}>
            Show earlier months
          </Button>
        )
      }
    >
      {!months ? (
        <TableSkeleton columns={["96px", "64px", "64px", "64px"]} rows={4} />
      ) : (
        <TableFrame label="Statements">
          <table>
            <caption class="sr">Statements</caption>
            <thead>
              <tr>
                <th scope="col">Month</th>
                <th scope="col" class="n opt">
                  Opening
                </th>
                <th scope="col" class="n">
                  Added
                </th>
                <th scope="col" class="n">
                  Charged
                </th>
                <th scope="col" class="n">
                  Closing
                </th>
                <th scope="col" class="n">
                  <span class="sr">File</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {months.slice(0, shown).map((month) => (
                <Month key={month} month={month} onOpen={setOpened} />
              ))}
            </tbody>
          </table>
        </TableFrame>
      )}
      {opened && <StatementDialog statement={opened} onClose={() => setOpened(null)} />}
    </Card>
  );
}

function useStatement(month: string): Resource<Statement> {
  const id = account.value?.id;
  return useResource(id ? `${id} ${month}` : null, (signal) =>
    request<Statement>("GET", `/statements/${month}`, { account: true, signal }),
  );
}

/** Credits that the month added. */
function added(statement: Statement): string {
  return add(add(statement.purchases, statement.promotions), statement.refunds);
}

/** Credits that the month took. */
function taken(statement: Statement): string {
  return add(add(statement.charged, statement.plan_fees), add(statement.expired, statement.withdrawn));
}

function Month(props: { month: string; onOpen: (statement: Statement) => void }) {
  const { month } = props;
  const statement = useStatement(month);
  const { data } = statement;
  const name = monthName(month);
  const isOpen = month === currentMonth();
  if (statement.error && !data) {
    return (
      <tr>
        <td colSpan={6} class="w">
          <span class="row wrap">
            <span class="bad" role="alert">
              The statement of {name} could not be loaded.
            </span>
            {statement.error.requestId && <code class="muted breakable">{statement.error.requestId}</code>}
            <Button size="small" icon="retry" class="end" onClick={statement.reload}>
              Try again
            </Button>
          </span>
        </td>
      </tr>
    );
  }
  const figure = (value: string | null | undefined) => (!value ? <Skeleton width="56px" /> : <span title={value}>{amount(value, 2)}</span>);
  return (
    <tr>
      <td>
        {data ? (
          <button type="button" class="rowlink" onClick={() => props.onOpen(data)}>
            {name}
            {isOpen && <span class="muted"> so far</span>}
          </button>
        ) : (
          name
        )}
      </td>
      <td class="n opt">{figure(data?.opening)}</td>
      <td class="n">{figure(data && added(data))}</td>
      <td class="n">{figure(data && taken(data))}</td>
      <td class="n">{figure(data?.closing)}</td>
      <td class="n">
        <Button kind="bare" size="small" icon="download" disabled={!data} label={`Statement of ${name} as CSV`} onClick={() => data && save(data)} />
      </td>
    </tr>
  );
}

/** Lines of a statement: name, amount, and whether the line is subtracted. */
function linesOf(statement: Statement): { label: string; value: string; isMinus?: boolean }[] {
  const lines = [
    { label: "Purchases", value: statement.purchases },
    { label: "Promotions", value: statement.promotions },
    { label: "Refunds", value: statement.refunds },
    { label: "Calls", value: statement.charged, isMinus: true },
    {
      label: statement.plan_periods > 0 ? `Plan, ${plural(statement.plan_periods, "period")}` : "Plan",
      value: statement.plan_fees,
      isMinus: true,
    },
    { label: "Expired", value: statement.expired, isMinus: true },
    { label: "Withdrawn", value: statement.withdrawn, isMinus: true },
  ];
  return lines.filter((line) => !isZero(line.value));
}

function StatementDialog(props: { statement: Statement; onClose: () => void }) {
  const { statement } = props;
  const isOpen = statement.month === currentMonth();
  const held = isZero(statement.closing_held) ? null : statement.closing_held;
  return (
    <Dialog
      title={`Statement of ${monthName(statement.month)}${isOpen ? ", so far" : ""}`}
      size="large"
      onClose={props.onClose}
      footer={
        <>
          <Button icon="download" onClick={() => save(statement)}>
            CSV
          </Button>
          <Button autoFocus onClick={props.onClose}>
            Close
          </Button>
        </>
      }
    >
      <table class="lines">
        <caption class="sr">Movements of the balance</caption>
        <thead>
          <tr>
            <th scope="col">Movement</th>
            <th scope="col" class="n">
              Credits
            </th>
          </tr>
        </thead>
        <tbody>
          <tr>
            <td>Opening balance</td>
            <td class="n">{whole(statement.opening)}</td>
          </tr>
          {linesOf(statement).map((line) => (
            <tr key={line.label}>
              <td>{line.label}</td>
              <td class="n">
                {line.isMinus ? "−" : "+"}
                {whole(line.value)}
              </td>
            </tr>
          ))}
          <tr class="total">
            <td>{isOpen ? "Balance now" : "Closing balance"}</td>
            <td class="n">{whole(statement.closing)}</td>
          </tr>
        </tbody>
      </table>
      {held && <p class="muted t12">{whole(held)} of it is on hold for running calls.</p>}
      {!isZero(statement.allowance_used) && (
        <p class="muted t12">The plan paid {whole(statement.allowance_used)} more from its allowance.</p>
      )}
      {statement.charges.length > 0 && <Charges statement={statement} />}
    </Dialog>
  );
}

function Charges(props: { statement: Statement }) {
  return (
    <div class="stack g4">
      <h3>Calls</h3>
      <TableFrame label="Charges of calls">
        <table class="lines">
          <caption class="sr">Charges of calls</caption>
          <thead>
            <tr>
              <th scope="col">Model</th>
              <th scope="col" class="opt">
                Endpoint
              </th>
              <th scope="col" class="n opt">
                Calls
              </th>
              <th scope="col" class="n">
                Paid
              </th>
              <th scope="col" class="n">
                Included
              </th>
            </tr>
          </thead>
          <tbody>
            {props.statement.charges.map((charge) => (
              <tr key={`${charge.model} ${charge.endpoint}`}>
                <td>
                  <span class="trunc clipcell" title={charge.model}>
                    {charge.model}
                  </span>
                </td>
                <td class="muted opt">{shortEndpoint(charge.endpoint)}</td>
                <td class="n opt">{count(charge.calls)}</td>
                <td class="n" title={charge.paid}>
                  {amount(charge.paid, 6)}
                </td>
                <td class="n" title={charge.included}>
                  {amount(charge.included, 6)}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </TableFrame>
    </div>
  );
}

function save(statement: Statement): void {
  saveCsv(`statement-${statement.month}.csv`, [
    ["line", "model", "endpoint", "calls", "credits", "allowance"],
    ["opening balance", "", "", "", statement.opening, ""],
    ["purchases", "", "", "", statement.purchases, ""],
    ["promotions", "", "", "", statement.promotions, ""],
    ["refunds", "", "", "", statement.refunds, statement.allowance_refunded],
    ["calls", "", "", "", `-${statement.charged}`, `-${statement.allowance_used}`],
    ["plan fees", "", "", "", `-${statement.plan_fees}`, ""],
    ["expired", "", "", "", `-${statement.expired}`, ""],
    ["withdrawn", "", "", "", `-${statement.withdrawn}`, ""],
    ["closing balance", "", "", "", statement.closing, ""],
    ...statement.charges.map((charge) => [
      "charge",
      charge.model,
      charge.endpoint,
      charge.calls,
      `-${charge.paid}`,
      `-${charge.included}`,
    ]),
  ]);
}
