import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

import { Button } from "../../parts/button.tsx";
import { Field } from "../../parts/field.tsx";
import { EmptyState } from "../../parts/states.tsx";
import { TextArea } from "../../parts/text-area.tsx";
import { PUBLIC_API, request } from "../../shell/api.ts";
import { add as sumOf, plural } from "../../shell/format.ts";
import { place } from "../../shell/router.ts";
import { loadUsage } from "../../shell/usage.ts";
import type { JobEvent } from "../jobs/live.ts";
import { ReportView } from "../jobs/report.tsx";
import { findModel, modelsFor } from "./catalog.ts";
import { CallForm, compactBody, FormPage, ModelField, modeState, Receipt, ValueField } from "./forms.tsx";
import { JobCard, useJobs } from "./job.tsx";
import { useQuote, type QuoteState } from "./quote.ts";

export const RESEARCH_ENDPOINT = "/v1/research";

const MAX_QUESTION = 32_000;

const form = modeState({ model: "", query: "", effort: "low", sites: "", after: "", maxCost: "" });

/** Asks a research model, shows its steps, and a report whose citations open the quote in the source. */
export function ResearchMode(props: { tabs: ComponentChildren; mayCall: boolean }) {
  const models = modelsFor(RESEARCH_ENDPOINT);
  const { jobs, add, remove } = useJobs("research");
  const [error, setError] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const [sent, setSent] = useState<string | null>(null);
  const current = form.value;
  const change = (changes: Partial<typeof current>) => {
    form.value = { ...form.peek(), ...changes };
  };
  const linked = place.value.params.get("model");
  const chosen = [current.model, linked, models[0]?.id].find((id) => id && models.some((model) => model.id === id)) ?? "";
  const efforts = findModel(chosen)?.modes ?? [];
  const body = compactBody({
    model: chosen,
    query: current.query.trim(),
    reasoning_effort: efforts.length === 0 || efforts.includes(current.effort) ? current.effort : "",
    search_domain_filter: current.sites.trim(),
    search_after_date_filter: current.after.trim(),
    max_cost: current.maxCost.trim(),
  });
  const isComplete = chosen !== "" && current.query.trim() !== "" && props.mayCall;
  const quote = useQuote(isComplete ? JSON.stringify(body) : null, () => [{ endpoint: RESEARCH_ENDPOINT, request: body }]);
  const send = () => {
    if (!isComplete || isBusy) return;
    setBusy(true);
    setError(null);
    setSent(JSON.stringify(body));
    request<{ job_id: string }>("POST", `${PUBLIC_API}/research`, { body, account: true })
      .then(
        (job) => {
          add(job.job_id);
          void loadUsage();
        },
        (failure: unknown) => setError(failure),
      )
      .finally(() => setBusy(false));
  };
  return (
    <FormPage
      title="Research"
      tabs={props.tabs}
      code={chosen ? { label: "Research", path: "/research", body: { json: sent ?? JSON.stringify(body) } } : null}
      isSent={sent !== null}
      form={
        <CallForm
          error={error}
          onSubmit={send}
          footer={<Price quote={quote} />}
          submit={
            <Button kind="primary" size="large" type="submit" class="grow" isBusy={isBusy} disabled={!isComplete}>
              Research <kbd class="onp">Ctrl ⏎</kbd>
            </Button>
          }
        >
          <ModelField models={models} value={chosen} onChange={(model) => change({ model })} />
          <TextArea
            label="Question"
            rows={5}
            value={current.query}
            maxLength={MAX_QUESTION}
            hint={chosen.startsWith("sim/") ? "The simulator knows 200 documents about the islands of Orsel." : ""}
            onInput={(query) => change({ query })}
          />
          <ValueField label="Effort" value={current.effort} values={efforts.length > 0 ? efforts : ["minimal", "low", "medium", "high"]} onChange={(effort) => change({ effort })} />
          <Field
            label="Sites, optional"
            value={current.sites}
            hint="Separated by commas. A leading - excludes a site."
            onInput={(sites) => change({ sites })}
          />
          <div class="pair">
            <Field label="Not before, optional" value={current.after} hint="Such as 2026-01-31." onInput={(after) => change({ after })} />
            <Field label="Maximum cost, optional" value={current.maxCost} hint="In credits, such as 0.25." onInput={(maxCost) => change({ maxCost })} />
          </div>
        </CallForm>
      }
    >
      {jobs.length === 0 && (
        <EmptyState title="No report yet">
          A report has several sections. Each citation opens the quoted passage in the stored text of its source.
        </EmptyState>
      )}
      {jobs.map((id) => (
        <JobCard
          key={id}
          id={id}
          texts={{ running: "Researching", done: "Report", charge: "A cancelled report costs the calls that it made." }}
          onGone={() => remove(id)}
          live={(events) => <Steps events={events} />}
          result={(job) => <ReportView job={job} />}
        />
      ))}
    </FormPage>
  );
}

const STAGES: Record<string, string> = { plan: "Planning", search: "Searches", read: "Reading", write: "Writing" };

/** The maximum cost of a report by stage. */
function Price(props: { quote: QuoteState }) {
  const { quote } = props;
  if (quote.error !== null) return <p class="t12 warn">{quote.error}</p>;
  if (quote.most === null) return <p class="muted t12">Enter a question to see the maximum cost.</p>;
  const costs = new Map<string, string>();
  for (const item of quote.items) {
    const stage = STAGES[item.step ?? ""] ?? item.class;
    costs.set(stage, sumOf(costs.get(stage) ?? "0", item.cost));
  }
  const lines = [...costs].map(([label, cost]) => ({ label, detail: "", cost }));
  return (
    <>
      <Receipt lines={lines} sum="At most" total={quote.most} />
      {!quote.isSufficient && (
        <p class="t12 warn" role="status">
          More than the balance.
        </p>
      )}
    </>
  );
}

/** Returns a step in a few words; null for events without one. */
function stepText(event: JobEvent, titles: Map<unknown, string>): string | null {
  const text = (name: string) => (typeof event[name] === "string" ? event[name] : "");
  const items = (name: string) => (Array.isArray(event[name]) ? event[name].length : 0);
  switch (event.type) {
    case "research.plan":
      return `Planned ${plural(items("questions"), "question")}`;
    case "research.search":
      return `Searched “${text("query")}”: ${plural(Number(event["results"] ?? 0), "result")}`;
    case "research.source":
      return `Opened ${text("title") || text("url")}`;
    case "research.read":
      return text("skipped")
        ? `Skipped ${text("url") || titles.get(event["source_id"])}: ${text("skipped")}`
        : `Read ${titles.get(event["source_id"]) ?? "a page"}: ${plural(items("notes"), "note")}`;
    case "research.reflect":
      return items("gaps") > 0 ? `Looking for ${plural(items("gaps"), "missing answer")}` : "Found an answer to each question";
    case "research.outline":
      return `Outlined ${plural(items("sections"), "section")}`;
    case "research.delta":
      return `Wrote “${text("section")}”`;
    default:
      return null;
  }
}

const SHOWN_STEPS = 6;

function Steps(props: { events: JobEvent[] }) {
  const sources = props.events.filter((event) => event.type === "research.source");
  const titles = new Map(sources.map((event) => [event["id"], String(event["title"] ?? event["url"])]));
  const steps = props.events.flatMap((event) => {
    const text = stepText(event, titles);
    return text ? [{ key: event.sequence, text }] : [];
  });
  if (steps.length === 0) return null;
  return (
    <ul class="rsteps" aria-label="Steps">
      {steps.slice(-SHOWN_STEPS).map((step) => (
        <li key={step.key} class="trunc">
          {step.text}
        </li>
      ))}
    </ul>
  );
}
