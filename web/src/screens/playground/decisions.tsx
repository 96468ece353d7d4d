import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

import { Button } from "../../parts/button.tsx";
import { Chip } from "../../parts/data.tsx";
import { Dialog } from "../../parts/dialog.tsx";
import { Field, Select } from "../../parts/field.tsx";
import { EmptyState } from "../../parts/states.tsx";
import { TextArea } from "../../parts/text-area.tsx";
import { PUBLIC_API, request } from "../../shell/api.ts";
import { count, duration, plural } from "../../shell/format.ts";
import { place } from "../../shell/router.ts";
import { loadUsage } from "../../shell/usage.ts";
import { findModel, modelsFor } from "./catalog.ts";
import { CallForm, FormPage, ModelField, modeState, trimmed, ValueField } from "./forms.tsx";
import { quoteText, useQuote } from "./quote.ts";

export const DECISIONS_ENDPOINT = "/v1/decisions";

type Kind = "noul" | "choice" | "score" | "tool";

interface Question {
  id: string;
  type: Kind;
  instructions: string;
  /** Options of a choice, or levels of a score, one a line; functions of a tool question as JSON. */
  options: string;
}

const KINDS = [
  { value: "noul", label: "Yes or no (noul)" },
  { value: "choice", label: "Choice" },
  { value: "score", label: "Score" },
  { value: "tool", label: "Tool" },
] as const;

const TOOLS = `[
  {
    "type": "function",
    "function": {
      "name": "issue_refund",
      "parameters": {
        "type": "object",
        "properties": {
          "reason": { "enum": ["late", "damaged"] },
          "notify": { "type": "boolean" }
        }
      }
    }
  },
  { "type": "function", "function": { "name": "escalate", "parameters": { "type": "object" } } }
]`;

const STATE = `{
  "order": "A-20931",
  "total": 64.90,
  "delivered": "2026-11-19",
  "promised": "2026-11-14",
  "message": "My parcel came five days late and the box was open. I want my money back, not a voucher."
}`;

const form = modeState({
  model: "",
  state: STATE,
  questions: [
    { id: "refund", type: "noul", instructions: "Does the message ask for a refund?", options: "" },
    { id: "team", type: "choice", instructions: "Which team handles this?", options: "shipping\nbilling\nreturns\nproduct" },
    { id: "urgency", type: "score", instructions: "How soon does it need an answer?", options: "can wait\nthis week\ntoday\nright now" },
    { id: "next", type: "tool", instructions: "Pick the next action.", options: TOOLS },
  ] as Question[],
  hasAbstain: true,
  permutations: "",
});

interface Method {
  source: string;
  permutations: number;
  calibrated: boolean;
  min_mass?: number | null;
  calls?: number;
}

interface Argument {
  value: unknown;
  probabilities: Record<string, number>;
  confidence: number;
}

interface Answer {
  id?: string;
  type: string;
  noul?: number;
  choice?: unknown;
  score?: number;
  tool?: string;
  legend?: Record<string, string>;
  probabilities?: Record<string, number>;
  arguments?: Record<string, Record<string, Argument>>;
  confidence?: number;
  abstain?: number;
  method?: Method;
  error?: { message?: string; code?: string };
}

interface Result {
  questions: Question[];
  answers: Answer[];
  method: Method;
  usage: { total_tokens: number; cost: string };
  ms: number;
}

const shownResult = modeState<Result | null>(null);

/** Returns the state as JSON if it is an object or a list, else as text. */
function readState(text: string): unknown {
  try {
    const value: unknown = JSON.parse(text);
    return value !== null && typeof value === "object" ? value : text;
  } catch {
    return text;
  }
}

function lines(text: string): string[] {
  return text
    .split("\n")
    .map((line) => line.trim())
    .filter(Boolean);
}

function toRequest(question: Question, hasAbstain: boolean): Record<string, unknown> {
  const { id, type, instructions } = question;
  const abstain = hasAbstain && type !== "tool" ? { abstain: true } : {};
  if (type === "choice") return { id, type, instructions, options: lines(question.options), ...abstain };
  if (type === "score") return { id, type, instructions, levels: lines(question.options).map((label) => ({ label })), ...abstain };
  if (type === "tool") return { id, type, instructions, tools: JSON.parse(question.options) as unknown };
  return { id, type, instructions, ...abstain };
}

/** Asks typed questions about a state, and shows the probabilities. */
export function DecisionsMode(props: { tabs: ComponentChildren; mayCall: boolean }) {
  const models = modelsFor(DECISIONS_ENDPOINT);
  const current = form.value;
  const model = findModel(current.model) ?? models.find((one) => one.id === place.value.params.get("model")) ?? models[0];
  const change = (changes: Partial<typeof current>) => {
    form.value = { ...form.peek(), ...changes };
  };
  const [edited, setEdited] = useState<number | null>(null);
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const [sent, setSent] = useState<string | null>(null);
  const { questions } = current;
  const body: Record<string, unknown> = {
    model: model?.id ?? "",
    state: readState(current.state),
    questions: questions.map((question) => toRequest(question, current.hasAbstain)),
    ...(current.permutations ? { options: { permutations: Number(current.permutations) } } : {}),
  };
  const isComplete = current.state.trim() !== "" && questions.length > 0 && !!model && props.mayCall;
  const quote = useQuote(isComplete ? JSON.stringify(body) : null, () => [{ endpoint: DECISIONS_ENDPOINT, request: body }]);
  const submit = () => {
    if (!isComplete || isBusy) return;
    setBusy(true);
    setError(null);
    setSent(JSON.stringify(body));
    const start = performance.now();
    request<{ answers: Answer[]; method: Method; usage: Result["usage"] }>("POST", `${PUBLIC_API}/decisions`, { body, account: true })
      .then((decision) => {
        shownResult.value = { questions, answers: decision.answers, method: decision.method, usage: decision.usage, ms: performance.now() - start };
        void loadUsage();
      })
      .catch((failure: unknown) => setError(failure))
      .finally(() => setBusy(false));
  };
  const result = shownResult.value;
  return (
    <FormPage
      title="Decisions"
      tabs={props.tabs}
      code={{ label: "Decisions", path: "/decisions", body: { json: sent ?? JSON.stringify(body) } }}
      isSent={sent !== null}
      form={
        <CallForm
          error={error}
          onSubmit={submit}
          submit={
            <>
              <span class={`t12 num grow trunc ${quote.error || !quote.isSufficient ? "warn" : "muted"}`} title={quote.error ?? undefined}>
                {quoteText(quote, 7)}
              </span>
              <Button kind="primary" type="submit" isBusy={isBusy} disabled={!isComplete}>
                Decide <kbd class="onp">Ctrl ⏎</kbd>
              </Button>
            </>
          }
        >
          <ModelField models={models} value={model?.id ?? ""} onChange={(id) => change({ model: id })} />
          <TextArea
            label="State"
            isCode
            rows={7}
            value={current.state}
            note={quote.inputTokens > 0 ? `${plural(quote.inputTokens, "token")} with questions` : typeof readState(current.state) === "string" ? "Text" : "JSON"}
            onInput={(state) => change({ state })}
          />
          <div class="row between">
            <span class="lab">
              Questions <span class="muted num">{questions.length}</span>
            </span>
            <Button kind="bare" size="small" icon="plus" onClick={() => setEdited(questions.length)}>
              Add question
            </Button>
          </div>
          {questions.length > 0 && (
            <ul class="qs">
              {questions.map((question, index) => (
                <li key={question.id}>
                  <code>{question.id}</code>
                  <Chip>{question.type}</Chip>
                  <span class="grow muted trunc">{question.instructions}</span>
                  <Button kind="bare" size="small" icon="edit" label={`Edit ${question.id}`} onClick={() => setEdited(index)} />
                </li>
              ))}
            </ul>
          )}
          <label class="row">
            <input type="checkbox" class="cb" checked={current.hasAbstain} onChange={(event) => change({ hasAbstain: event.currentTarget.checked })} />
            Abstain when the state lacks the information
          </label>
          <ValueField label="Permutations" hasDefault value={current.permutations} values={["1", "2", "4"]} onChange={(permutations) => change({ permutations })} />
        </CallForm>
      }
    >
      {result ? <Answers result={result} /> : <EmptyState title="No decision yet">Probabilities, confidence and the method appear here.</EmptyState>}
      {edited !== null && (
        <QuestionDialog
          question={questions[edited] ?? { id: "", type: "noul", instructions: "", options: "" }}
          others={questions.filter((_, index) => index !== edited).map((question) => question.id)}
          onClose={() => setEdited(null)}
          onRemove={edited < questions.length ? () => change({ questions: questions.filter((_, index) => index !== edited) }) : null}
          onSave={(question) =>
            change({ questions: edited < questions.length ? questions.with(edited, question) : [...questions, question] })
          }
        />
      )}
    </FormPage>
  );
}

function faultOf(question: Question): string | null {
  const given = lines(question.options);
  if (question.type === "choice" && (given.length < 2 || given.length > 255)) return "Enter 2 to 255 options, one a line.";
  if (question.type === "choice" && new Set(given).size < given.length) return "Two options are equal.";
  if (question.type === "score" && (given.length < 2 || given.length > 10)) return "Enter 2 to 10 levels, one a line, the lowest first.";
  if (question.type !== "tool") return null;
  try {
    const tools: unknown = JSON.parse(question.options);
    return Array.isArray(tools) && tools.length > 0 ? null : "Enter a list of functions.";
  } catch (error) {
    return `This is no JSON: ${error instanceof Error ? error.message : String(error)}`;
  }
}

function QuestionDialog(props: {
  question: Question;
  others: string[];
  onClose: () => void;
  onRemove: (() => void) | null;
  onSave: (question: Question) => void;
}) {
  const [question, setQuestion] = useState(props.question);
  const [isShown, setShown] = useState(false);
  const idFault = !question.id.trim()
    ? "Enter an id."
    : props.others.includes(question.id.trim())
      ? "Another question has this id."
      : null;
  const textFault = question.instructions.trim() ? null : "Enter the question.";
  const optionsFault = faultOf(question);
  const edit = (changes: Partial<Question>) => setQuestion({ ...question, ...changes });
  const labels: Record<Kind, string> = { noul: "", choice: "Options, one a line", score: "Levels, one a line, the lowest first", tool: "Functions, as in chat completions" };
  return (
    <Dialog
      title={props.onRemove ? `Question ${props.question.id}` : "New question"}
      onClose={props.onClose}
      onSubmit={() => {
        setShown(true);
        if (idFault || textFault || optionsFault) return;
        props.onSave({ ...question, id: question.id.trim(), instructions: question.instructions.trim() });
        props.onClose();
      }}
      footer={
        <>
          {props.onRemove && (
            <Button
              kind="danger"
              onClick={() => {
                props.onRemove?.();
                props.onClose();
              }}
            >
              Remove question
            </Button>
          )}
          <span class="grow" />
          <Button onClick={props.onClose}>Cancel</Button>
          <Button kind="primary" type="submit">
            Use question
          </Button>
        </>
      }
    >
      <Field label="Id" value={question.id} maxLength={64} autoFocus={!props.onRemove} error={isShown ? idFault : null} onInput={(id) => edit({ id })} />
      <Select
        label="Type"
        value={question.type}
        options={KINDS}
        onChange={(type: Kind) => edit({ type, options: type === "tool" ? TOOLS : question.type === "tool" ? "" : question.options })}
      />
      <TextArea label="Question" rows={2} value={question.instructions} error={isShown ? textFault : null} onInput={(instructions) => edit({ instructions })} />
      {question.type !== "noul" && (
        <TextArea
          label={labels[question.type]}
          isCode={question.type === "tool"}
          rows={question.type === "tool" ? 10 : 4}
          value={question.options}
          error={isShown || question.type === "tool" ? optionsFault : null}
          onInput={(options) => edit({ options })}
        />
      )}
    </Dialog>
  );
}

/** Answers below it are marked. */
const LOW_CONFIDENCE = 0.5;

function Answers(props: { result: Result }) {
  const { result } = props;
  const { method } = result;
  return (
    <>
      <div class="dsum row wrap">
        <Chip tone="ok" dot>
          {duration(result.ms)}
        </Chip>
        <Chip>{method.source.replace("_", " ")}</Chip>
        {method.permutations > 0 && <Chip>{plural(method.permutations, "permutation")}</Chip>}
        <Chip>{method.calibrated ? "calibrated" : "not calibrated"}</Chip>
        <span class="end num">
          <span class="muted">{count(result.usage.total_tokens)} tokens · </span>
          <b title={result.usage.cost}>{trimmed(result.usage.cost)}</b>
        </span>
      </div>
      <span class="sr" role="status">
        {plural(result.answers.length, "answer")} after {duration(result.ms)}
      </span>
      {result.answers.map((answer, index) => (
        <AnswerView key={answer.id ?? index} answer={answer} question={result.questions[index]} />
      ))}
    </>
  );
}

function AnswerView(props: { answer: Answer; question: Question | undefined }) {
  const { answer, question } = props;
  const isLow = answer.confidence !== undefined && answer.confidence < LOW_CONFIDENCE;
  return (
    <section class="ans" aria-label={question?.id ?? "Answer"}>
      <header>
        <code class="strong">{question?.id ?? answer.id}</code>
        <Chip>{question?.type ?? answer.type}</Chip>
        <span class="muted trunc">{question?.instructions}</span>
        <span class="row g12 t12 muted end nowrap">
          {isLow && <Chip tone="warn">low confidence</Chip>}
          {answer.confidence !== undefined && (
            <span>
              confidence <b class="num">{answer.confidence.toFixed(2)}</b>
            </span>
          )}
          {answer.abstain !== undefined && (
            <span>
              abstain <b class="num">{answer.abstain.toFixed(2)}</b>
            </span>
          )}
        </span>
      </header>
      <div class="abody">
        <Verdict answer={answer} />
        <div class="stack g4">
          {answer.type === "score" && answer.legend && answer.score !== undefined && <Scale score={answer.score} legend={answer.legend} />}
          <Bars bars={barsOf(answer)} />
          <Arguments answer={answer} />
        </div>
      </div>
    </section>
  );
}

function Verdict(props: { answer: Answer }) {
  const { answer } = props;
  if (answer.type === "error") {
    return <div class="verd bad">{answer.error?.code ?? "Failed"}</div>;
  }
  if (answer.type === "refusal") return <div class="verd warn">Refused</div>;
  if (answer.noul !== undefined) return <div class="verd">{answer.noul >= 0.5 ? "Yes" : "No"}</div>;
  if (answer.score !== undefined) {
    const top = Object.keys(answer.legend ?? answer.probabilities ?? {}).length - 1;
    return (
      <div class="verd">
        {answer.score.toFixed(2)} <span class="muted t12">of 0 to {top}</span>
      </div>
    );
  }
  if (answer.tool !== undefined) {
    return (
      <div class="verd">
        <code>{answer.tool}</code>
      </div>
    );
  }
  return <div class="verd breakable">{String(answer.choice ?? "–")}</div>;
}

interface Bar {
  label: string;
  value: number;
  isBest: boolean;
}

function barsOf(answer: Answer): Bar[] {
  if (answer.noul !== undefined) {
    const yes = answer.noul;
    return [
      { label: "yes", value: yes, isBest: yes >= 0.5 },
      { label: "no", value: 1 - yes, isBest: yes < 0.5 },
    ];
  }
  return toBars(answer.probabilities ?? {}, answer.legend, answer.type !== "score");
}

function toBars(probabilities: Record<string, number>, legend: Record<string, string> | undefined, isSorted: boolean): Bar[] {
  const entries = Object.entries(probabilities);
  const most = Math.max(...entries.map(([, value]) => value));
  const bars = entries.map(([name, value]) => ({ label: legend?.[name] ? `${name} ${legend[name]}` : name, value, isBest: value === most }));
  return isSorted ? bars.sort((a, b) => b.value - a.value) : bars;
}

const SHOWN_BARS = 8;

function Bars(props: { bars: Bar[] }) {
  const [isOpen, setOpen] = useState(false);
  const { bars } = props;
  const shown = isOpen ? bars : bars.slice(0, SHOWN_BARS);
  return (
    <>
      {shown.map((bar) => (
        <div key={bar.label} class={bar.isBest ? "pb best" : "pb"}>
          <span class="trunc" title={bar.label}>
            {bar.label}
          </span>
          <span class="track" aria-hidden="true">
            <i style={{ width: `${bar.value * 100}%` }} />
          </span>
          <span class="num">{bar.value.toFixed(2)}</span>
        </div>
      ))}
      {bars.length > SHOWN_BARS && (
        <div class="row">
          <Button kind="bare" size="small" onClick={() => setOpen(!isOpen)}>
            {isOpen ? "Fewer" : `All ${bars.length}`}
          </Button>
        </div>
      )}
    </>
  );
}

function Scale(props: { score: number; legend: Record<string, string> }) {
  const levels = Object.keys(props.legend).length;
  const place = levels > 1 ? (props.score / (levels - 1)) * 100 : 0;
  return (
    <div class="scale" aria-hidden="true" style={{ "--steps": String(Math.max(1, levels - 1)) }}>
      <i style={{ left: `${place}%` }} />
    </div>
  );
}

function Arguments(props: { answer: Answer }) {
  const { answer } = props;
  const chosen = Object.entries(answer.arguments?.[answer.tool ?? ""] ?? {});
  if (chosen.length === 0) return null;
  return (
    <div class="args">
      {chosen.map(([name, argument]) => (
        <div key={name} class="stack g4">
          <code>{name}</code>
          <Bars bars={toBars(argument.probabilities, undefined, true)} />
        </div>
      ))}
    </div>
  );
}
