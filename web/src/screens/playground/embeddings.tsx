import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

import { Button } from "../../parts/button.tsx";
import { CopyButton } from "../../parts/code.tsx";
import { Chip, TableFrame } from "../../parts/data.tsx";
import { EmptyState } from "../../parts/states.tsx";
import { TextArea } from "../../parts/text-area.tsx";
import { PUBLIC_API, request } from "../../shell/api.ts";
import { count, duration } from "../../shell/format.ts";
import { place } from "../../shell/router.ts";
import { loadUsage } from "../../shell/usage.ts";
import { findModel, modelsFor } from "./catalog.ts";
import { CallForm, compactBody, FormPage, ModelField, modeState, trimmed } from "./forms.tsx";
import { NumberField } from "./parameters.tsx";
import { quoteText, useQuote } from "./quote.ts";

export const EMBEDDINGS_ENDPOINT = "/v1/embeddings";

/** Texts that one comparison can have: its table has a row and a column for each. */
const MAX_TEXTS = 12;

const form = modeState({ model: "", texts: ["", ""], dimensions: null as number | null });

interface Result {
  texts: string[];
  vectors: number[][];
  model: string;
  tokens: number;
  cost: string;
  ms: number;
}

const shownResult = modeState<Result | null>(null);

/** Embeds texts, and compares their vectors. */
export function EmbeddingsMode(props: { tabs: ComponentChildren; mayCall: boolean }) {
  const models = modelsFor(EMBEDDINGS_ENDPOINT);
  const current = form.value;
  const model = findModel(current.model) ?? models.find((one) => one.id === place.value.params.get("model")) ?? models[0];
  const change = (changes: Partial<typeof current>) => {
    form.value = { ...form.peek(), ...changes };
  };
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const [sent, setSent] = useState<string | null>(null);
  const texts = current.texts.filter((text) => text.trim());
  const body = compactBody({ model: model?.id, input: texts.length === 1 ? texts[0] : texts, dimensions: current.dimensions });
  const isComplete = texts.length > 0 && !!model && props.mayCall;
  const quote = useQuote(isComplete ? JSON.stringify(body) : null, () => [{ endpoint: EMBEDDINGS_ENDPOINT, request: body }]);
  const limit = model?.limits["dimensions"];
  const submit = () => {
    if (!isComplete || isBusy) return;
    setBusy(true);
    setError(null);
    setSent(JSON.stringify(body));
    const start = performance.now();
    request<{ data: { embedding: number[] }[]; usage: { prompt_tokens: number; cost: string } }>("POST", `${PUBLIC_API}/embeddings`, {
      body,
      account: true,
    })
      .then((list) => {
        shownResult.value = {
          texts,
          vectors: list.data.map((one) => one.embedding),
          model: model?.id ?? "",
          tokens: list.usage.prompt_tokens,
          cost: list.usage.cost,
          ms: performance.now() - start,
        };
        void loadUsage();
      })
      .catch((failure: unknown) => setError(failure))
      .finally(() => setBusy(false));
  };
  const result = shownResult.value;
  return (
    <FormPage
      title="Embeddings"
      tabs={props.tabs}
      code={texts.length > 0 ? { label: "Embeddings", path: "/embeddings", body: { json: sent ?? JSON.stringify(body) } } : null}
      isSent={sent !== null}
      form={
        <CallForm
          error={error}
          onSubmit={submit}
          footer={
            <p class={`t12 num ${quote.error || !quote.isSufficient ? "warn" : "muted"}`}>
              {quoteText(quote, 9) ?? "The quote appears as you type."}
            </p>
          }
          submit={
            <Button kind="primary" size="large" type="submit" class="grow" isBusy={isBusy} disabled={!isComplete}>
              Embed
            </Button>
          }
        >
          <ModelField models={models} value={model?.id ?? ""} onChange={(id) => change({ model: id })} />
          {current.texts.map((text, index) => (
            <div key={index} class="row removable">
              <div class="grow">
                <TextArea
                  label={`Text ${index + 1}`}
                  rows={2}
                  value={text}
                  onInput={(value) => change({ texts: current.texts.with(index, value) })}
                />
              </div>
              {current.texts.length > 1 && (
                <Button
                  kind="bare"
                  size="small"
                  icon="remove"
                  label={`Remove text ${index + 1}`}
                  onClick={() => change({ texts: current.texts.filter((_, at) => at !== index) })}
                />
              )}
            </div>
          ))}
          {current.texts.length < MAX_TEXTS && (
            <div class="row">
              <Button size="small" icon="plus" onClick={() => change({ texts: [...current.texts, ""] })}>
                Add text
              </Button>
            </div>
          )}
          <NumberField
            label="Dimensions"
            value={current.dimensions}
            maximum={typeof limit === "number" ? limit : 65_536}
            {...(typeof limit === "number" ? { unit: `of ${count(limit)}` } : {})}
            onChange={(dimensions) => change({ dimensions })}
          />
        </CallForm>
      }
    >
      {result ? <ResultView result={result} /> : <EmptyState title="No vectors yet">Two or more texts are compared by the cosine of their vectors.</EmptyState>}
    </FormPage>
  );
}

function cosine(left: number[], right: number[]): number {
  let [dot, a, b] = [0, 0, 0];
  for (let at = 0; at < left.length; at += 1) {
    const [x, y] = [left[at] ?? 0, right[at] ?? 0];
    dot += x * y;
    a += x * x;
    b += y * y;
  }
  return a > 0 && b > 0 ? dot / Math.sqrt(a * b) : 0;
}

function ResultView(props: { result: Result }) {
  const { result } = props;
  const { vectors, texts } = result;
  return (
    <>
      <div class="row wrap">
        <Chip tone="ok" dot>
          {duration(result.ms)}
        </Chip>
        <Chip>{count(vectors[0]?.length ?? 0)} dimensions</Chip>
        <span class="end num">
          <span class="muted">{count(result.tokens)} tokens · </span>
          <b title={result.cost}>{trimmed(result.cost)}</b>
        </span>
      </div>
      {vectors.length > 1 && (
        <section class="stack g12" aria-label="Similarity">
          <h2>Similarity</h2>
          <TableFrame label="Similarity of each pair">
            <table class="matrix">
              <caption class="sr">Cosine of each pair of texts</caption>
              <thead>
                <tr>
                  <th scope="col">Text</th>
                  {texts.map((_, index) => (
                    <th key={index} scope="col" class="n">
                      {index + 1}
                    </th>
                  ))}
                </tr>
              </thead>
              <tbody>
                {texts.map((text, row) => (
                  <tr key={row}>
                    <th scope="row">
                      <span class="clip trunc" title={text}>
                        {row + 1}&ensp;{text}
                      </span>
                    </th>
                    {vectors.map((vector, column) => {
                      const value = cosine(vectors[row] ?? [], vector);
                      return (
                        <td key={column} class="n">
                          <i aria-hidden="true" style={{ opacity: Math.max(0, value) }} />
                          <span>{value.toFixed(3)}</span>
                        </td>
                      );
                    })}
                  </tr>
                ))}
              </tbody>
            </table>
          </TableFrame>
        </section>
      )}
      <section class="stack g12" aria-label="Vectors">
        <h2>Vectors</h2>
        {vectors.map((vector, index) => (
          <div key={index} class="vector">
            <span class="muted num">{index + 1}</span>
            <code class="trunc">[{vector.slice(0, 24).map((value) => value.toFixed(4)).join(", ")}, …]</code>
            <CopyButton text={JSON.stringify(vector)} label={`Copy vector ${index + 1}`} />
          </div>
        ))}
      </section>
    </>
  );
}
