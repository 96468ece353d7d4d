import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

import { Button } from "../../parts/button.tsx";
import { Code } from "../../parts/code.tsx";
import { Chip } from "../../parts/data.tsx";
import { Options } from "../../parts/field.tsx";
import { Icon } from "../../parts/icon.tsx";
import { EmptyState, ErrorState, Skeleton } from "../../parts/states.tsx";
import { TextArea } from "../../parts/text-area.tsx";
import { notifyFailure } from "../../parts/toast.tsx";
import { PUBLIC_API, request } from "../../shell/api.ts";
import { count, plural } from "../../shell/format.ts";
import { downloadFile, uploadFile } from "../../shell/files.ts";
import { usePolling } from "../../shell/polling.ts";
import { useResource } from "../../shell/resource.ts";
import { href } from "../../shell/router.ts";
import type { Batch } from "../../shell/types.ts";
import { catalog } from "./catalog.ts";
import { CallForm, FormPage, ModelField, modeState, trimmed } from "./forms.tsx";
import { useJobs } from "./job.tsx";
import { NumberField } from "./parameters.tsx";

const ENDPOINTS = [
  { value: "/v1/chat/completions", label: "Chat" },
  { value: "/v1/embeddings", label: "Embeddings" },
] as const;

type Endpoint = (typeof ENDPOINTS)[number]["value"];

const MAX_LINES = 50_000;
const POLL_MS = 3000;

const form = modeState({ endpoint: ENDPOINTS[0].value as Endpoint, model: "", system: "", prompts: "", maxTokens: null as number | null });

export function batchModels(endpoint?: Endpoint) {
  return (catalog.value.models ?? []).filter(
    (model) => model.batch_supported && (endpoint ? model.endpoints.includes(endpoint) : ENDPOINTS.some((one) => model.endpoints.includes(one.value))),
  );
}

function toLine(text: string, index: number, model: string): string {
  const current = form.value;
  const chat = {
    model,
    messages: [...(current.system.trim() ? [{ role: "system", content: current.system.trim() }] : []), { role: "user", content: text }],
    ...(current.maxTokens ? { max_completion_tokens: current.maxTokens } : {}),
  };
  const body = current.endpoint === "/v1/embeddings" ? { model, input: text } : chat;
  return JSON.stringify({ custom_id: `line-${index + 1}`, method: "POST", url: current.endpoint, body });
}

/** Sends many prompts as one batch. */
export function BatchMode(props: { tabs: ComponentChildren; mayCall: boolean }) {
  const current = form.value;
  const change = (changes: Partial<typeof current>) => {
    form.value = { ...form.peek(), ...changes };
  };
  const models = batchModels(current.endpoint);
  const model = models.find((one) => one.id === current.model) ?? models[0];
  const { jobs, add, remove } = useJobs("batch");
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const [sent, setSent] = useState<string | null>(null);
  const prompts = current.prompts.split("\n").filter((line) => line.trim());
  const isComplete = prompts.length > 0 && prompts.length <= MAX_LINES && !!model && props.mayCall;
  const submit = () => {
    if (!isComplete || isBusy || !model) return;
    setBusy(true);
    setError(null);
    const lines = prompts.map((prompt, index) => toLine(prompt.trim(), index, model.id)).join("\n");
    const file = new File([`${lines}\n`], "playground.jsonl", { type: "application/jsonl" });
    uploadFile(file, "batch", null, () => undefined, new AbortController().signal)
      .then((stored) => {
        const body = { input_file_id: stored.id, endpoint: current.endpoint, completion_window: "24h" };
        setSent(JSON.stringify(body));
        return request<Batch>("POST", `${PUBLIC_API}/batches`, { body, account: true });
      })
      .then((batch) => add(batch.id))
      .catch((failure: unknown) => setError(failure))
      .finally(() => setBusy(false));
  };
  return (
    <FormPage
      title="Batch"
      tabs={props.tabs}
      code={{
        label: "Batch",
        path: "/batches",
        body: { json: sent ?? JSON.stringify({ input_file_id: "file-…", endpoint: current.endpoint, completion_window: "24h" }) },
      }}
      isSent={sent !== null}
      form={
        <CallForm
          error={error}
          onSubmit={submit}
          footer={<p class="muted t12">A batch ends within 24 hours. Each line is charged at the batch price when it ends.</p>}
          submit={
            <Button kind="primary" size="large" type="submit" class="grow" isBusy={isBusy} disabled={!isComplete}>
              Create batch
            </Button>
          }
        >
          <Options label="Kind" value={current.endpoint} options={ENDPOINTS} onChange={(endpoint: Endpoint) => change({ endpoint })} />
          <ModelField models={models} value={model?.id ?? ""} onChange={(id) => change({ model: id })} />
          {current.endpoint === "/v1/chat/completions" && (
            <TextArea label="System prompt, optional" rows={2} value={current.system} onInput={(system) => change({ system })} />
          )}
          <TextArea
            label={current.endpoint === "/v1/embeddings" ? "Texts" : "Messages"}
            rows={8}
            value={current.prompts}
            note={plural(prompts.length, "line")}
            hint="One a line, at most 50,000. For files with other requests, use Batches."
            error={prompts.length > MAX_LINES ? "A batch has at most 50,000 lines." : null}
            onInput={(text) => change({ prompts: text })}
          />
          {current.endpoint === "/v1/chat/completions" && (
            <NumberField
              label="Maximum output tokens"
              value={current.maxTokens}
              maximum={model?.max_output_tokens ?? 1_000_000}
              onChange={(maxTokens) => change({ maxTokens })}
            />
          )}
          {prompts[0] && model && <Code language="First line of the file" text={toLine(prompts[0].trim(), 0, model.id)} />}
        </CallForm>
      }
    >
      {jobs.length === 0 ? (
        <EmptyState title="No batch in this tab yet" action={<a class="btn" href={href("/batches")}>Open all batches</a>}>
          Progress and results of the batches that you create here appear here.
        </EmptyState>
      ) : (
        jobs.map((id) => <BatchCard key={id} id={id} onGone={() => remove(id)} />)
      )}
    </FormPage>
  );
}

const ENDED = ["completed", "failed", "expired", "cancelled"];

function BatchCard(props: { id: string; onGone: () => void }) {
  const path = `${PUBLIC_API}/batches/${encodeURIComponent(props.id)}`;
  const batch = useResource(props.id, (signal) => request<Batch>("GET", path, { account: true, signal }));
  const { data } = batch;
  usePolling(!!data && !ENDED.includes(data.status), POLL_MS, batch.reload);
  if (!data) {
    if (batch.error?.status === 404) return null;
    return batch.error ? <ErrorState what="The batch" error={batch.error} onRetry={batch.reload} /> : <Skeleton width="100%" height={96} />;
  }
  const { total, completed, failed } = data.request_counts;
  const isRunning = !ENDED.includes(data.status);
  const tone = isRunning ? "info" : data.status === "completed" ? "ok" : data.status === "cancelled" ? undefined : "bad";
  const label = data.status.charAt(0).toUpperCase() + data.status.slice(1).replace("_", " ");
  const get = (id: string, name: string) => {
    downloadFile(id, name).catch((error: unknown) => notifyFailure("Not downloaded", error));
  };
  return (
    <section class="job" aria-label={`Batch ${data.id}`}>
      <header class="row wrap">
        <h2>{plural(total, "request")}</h2>
        <Chip {...(tone ? { tone } : {})} dot>
          {label}
        </Chip>
        <a class="mono muted t12 trunc" href={href(`/batches?batch=${encodeURIComponent(data.id)}`)}>
          {data.id}
        </a>
        <span class="end row">
          {data.cost && (
            <b class="num" title={data.cost}>
              {trimmed(data.cost)}
            </b>
          )}
          {data.output_file_id && (
            <Button size="small" icon="download" onClick={() => get(data.output_file_id ?? "", "results.jsonl")}>
              Results
            </Button>
          )}
          {data.error_file_id && (
            <Button size="small" icon="download" onClick={() => get(data.error_file_id ?? "", "errors.jsonl")}>
              Errors
            </Button>
          )}
        </span>
      </header>
      <div class="meter" role="img" aria-label={`${completed + failed} of ${total} requests have ended`}>
        <i style={{ width: `${total > 0 ? ((completed + failed) / total) * 100 : 0}%` }} />
      </div>
      <p class="muted t12 num">
        {count(completed)} completed, {count(failed)} failed, {data.model}
      </p>
      {data.errors?.data[0] && (
        <div class="pfault">
          <Icon name="warning" class="bad" />
          <span>{data.errors.data[0].message}</span>
        </div>
      )}
    </section>
  );
}
