import { useState } from "preact/hooks";

import { Button } from "../../parts/button.tsx";
import { Code, CopyButton } from "../../parts/code.tsx";
import { Chip } from "../../parts/data.tsx";
import { highlight } from "../../parts/highlight.ts";
import { Icon } from "../../parts/icon.tsx";
import { Markdown, Tokens } from "../../parts/markdown.tsx";
import { TextArea } from "../../parts/text-area.tsx";
import { count, duration, smallAmount } from "../../shell/format.ts";
import { href } from "../../shell/router.ts";
import { parseSchema } from "./body.ts";
import { prefixMark, shortName } from "./catalog.ts";
import type { Step } from "./chat-types.ts";
import { chat, contentOf, costOf, type LiveAnswer, type LiveTurn } from "./conversation.ts";
import { validate, type Fault } from "./schema.ts";

/** The answer of one model to a message. */
export function AnswerColumn(props: { turn: LiveTurn; column: number; isLast: boolean; mayChange: boolean }) {
  const { turn, column } = props;
  const answer = turn.answers[column];
  if (!answer) return null;
  // Only this column is drawn again when its text grows.
  const version = answer.version.value;
  const isRunning = answer.status === "running";
  const text = contentOf(answer);
  return (
    <div class="pcol" role="group" aria-label={`Answer ${column + 1} of ${turn.answers.length}, ${answer.model}`}>
      <header>
        <span class="mk" aria-hidden="true">
          {prefixMark(answer.model)}
        </span>
        <span class="strong trunc" title={answer.model}>
          {shortName(answer.model)}
        </span>
        <span class="end row g4">
          <AnswerState answer={answer} />
          {!isRunning && text && <CopyButton text={text} label={`Copy the answer of ${answer.model}`} />}
          {!isRunning && props.isLast && props.mayChange && (
            <Button
              kind="bare"
              size="small"
              icon="retry"
              label={`Ask ${answer.model} again`}
              onClick={() => chat.value.retry(turn, column)}
            />
          )}
        </span>
      </header>
      <div class="pbody">
        {answer.steps.map((step, index) => (
          <StepView key={index} step={step} version={version} isGrowing={isRunning && index === answer.steps.length - 1} />
        ))}
        {answer.error && (
          <div class="pfault" role="group" aria-label="Failure">
            <Icon name="warning" class="bad" />
            <span class="stack g4">
              <span class="breakable">{answer.error.message}</span>
              <span class="muted t12 row wrap">
                <code>{answer.error.code}</code>
                {answer.steps.at(-1)?.request_id && <code class="breakable">{answer.steps.at(-1)?.request_id}</code>}
              </span>
            </span>
          </div>
        )}
        {props.isLast && props.mayChange && !isRunning && <ToolResults turn={turn} answer={answer} version={version} />}
      </div>
      <Figures answer={answer} />
    </div>
  );
}

function AnswerState(props: { answer: LiveAnswer }) {
  const { answer } = props;
  const last = answer.steps.at(-1);
  if (answer.status === "running") {
    return (
      <Chip tone="info" dot>
        {last && last.first_ms !== null ? "Streaming" : "Waiting"}
      </Chip>
    );
  }
  if (answer.status === "failed") {
    return (
      <Chip tone="bad" dot>
        Failed
      </Chip>
    );
  }
  if (answer.status === "stopped") {
    return (
      <Chip tone="warn" dot>
        Stopped
      </Chip>
    );
  }
  if (last?.tools.some((tool) => tool.result === undefined)) {
    return (
      <Chip tone="warn" dot>
        Waits for results
      </Chip>
    );
  }
  if (last?.finish === "length") return <Chip tone="warn">Cut at the limit</Chip>;
  if (last?.finish === "content_filter") return <Chip tone="warn">Blocked</Chip>;
  if (last?.refusal) return <Chip tone="warn">Refused</Chip>;
  return (
    <Chip tone="ok" dot>
      Done
    </Chip>
  );
}

/** `version` draws the step again, because the step itself stays the same object. */
function StepView(props: { step: Step; version: number; isGrowing: boolean }) {
  const { step, isGrowing } = props;
  const { format } = chat.value.settings.value;
  const text = step.content || step.refusal || "";
  const isJson = format !== "text" && /^\s*[{[]/.test(text);
  const tokens = step.usage?.completion_tokens_details?.reasoning_tokens;
  return (
    <>
      {step.reasoning && (
        <details class="think">
          <summary>
            <Icon name="right" small />
            {isGrowing && !text ? "Reasoning…" : "Reasoning"}
            <span class="muted num">
              {[step.reasoning_ms !== null && duration(step.reasoning_ms), tokens && `${count(tokens)} tokens`]
                .filter(Boolean)
                .join(" · ")}
            </span>
          </summary>
          <div class="thought">
            <Markdown text={step.reasoning} isGrowing={isGrowing && !text} />
          </div>
        </details>
      )}
      {isJson ? (
        <JsonAnswer text={text} isGrowing={isGrowing} />
      ) : (
        text && <Markdown text={text} isGrowing={isGrowing} />
      )}
      {isGrowing && <span class="caret" aria-hidden="true" />}
      {step.tools.map((tool) => (
        <div key={tool.id} class="toolcall">
          <div class="row">
            <Icon name="tool" class="muted" />
            <code class="strong">{tool.name}</code>
            {tool.result !== undefined && <span class="end muted t12">Result sent</span>}
          </div>
          <pre class="mono">{prettyArguments(tool.arguments)}</pre>
          {tool.result !== undefined && <pre class="mono result">{tool.result || "(empty)"}</pre>}
        </div>
      ))}
    </>
  );
}

function prettyArguments(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

function parseJson(text: string): { value: unknown } | { fault: string } {
  try {
    return { value: JSON.parse(text) as unknown };
  } catch (error) {
    return { fault: error instanceof Error ? error.message : String(error) };
  }
}

/** A structured answer, checked against the schema. */
function JsonAnswer(props: { text: string; isGrowing: boolean }) {
  const { format, schema } = chat.value.settings.value;
  const parsed = parseJson(props.text);
  const expected = format === "json_schema" ? parseSchema(schema) : null;
  const faults: Fault[] = "fault" in parsed ? [{ path: "", message: `is no complete JSON: ${parsed.fault}` }] : expected ? validate(parsed.value, expected) : [];
  const shown = "value" in parsed ? JSON.stringify(parsed.value, null, 2) : props.text;
  const isOpen = props.isGrowing && "fault" in parsed;
  return (
    <div class="stack">
      <Code language="JSON" text={shown} header={<SchemaState isOpen={isOpen} faults={faults} hasSchema={expected !== null} />}>
        {props.isGrowing ? shown : <Tokens tokens={highlight(shown, "json")} />}
      </Code>
      {!isOpen && faults.length > 0 && (
        <ul class="faults">
          {faults.map((fault) => (
            <li key={fault.path + fault.message}>
              <code>{fault.path || "The answer"}</code> {fault.message}
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

function SchemaState(props: { isOpen: boolean; faults: Fault[]; hasSchema: boolean }) {
  if (props.isOpen) return <Chip tone="info">Incomplete JSON</Chip>;
  if (props.faults.length > 0) return <Chip tone="bad">{props.hasSchema ? "Does not match the schema" : "No JSON"}</Chip>;
  return <Chip tone="ok">{props.hasSchema ? "Matches the schema" : "JSON"}</Chip>;
}

/** Fields for the results of the tools that a model has called. */
function ToolResults(props: { turn: LiveTurn; answer: LiveAnswer; version: number }) {
  const { turn, answer } = props;
  const [results, setResults] = useState<string[]>([]);
  const calls = answer.steps.at(-1)?.tools ?? [];
  if (answer.status !== "completed" || calls.length === 0 || calls.some((tool) => tool.result !== undefined)) return null;
  return (
    <form
      class="stack g12 toolresults"
      onSubmit={(event) => {
        event.preventDefault();
        chat.value.sendResults(turn, answer, calls.map((_, index) => results[index] ?? ""));
        setResults([]);
      }}
    >
      {calls.map((tool, index) => (
        <TextArea
          key={tool.id}
          label={`Result of ${tool.name}`}
          isCode
          rows={2}
          value={results[index] ?? ""}
          onInput={(value) => setResults(calls.map((_, at) => (at === index ? value : (results[at] ?? ""))))}
        />
      ))}
      <div class="row">
        <Button size="small" type="submit">
          {calls.length === 1 ? "Send result" : "Send results"}
        </Button>
      </div>
    </form>
  );
}

/** Shorter streams say nothing about the speed of a model. */
const MIN_STREAM_MS = 250;

function Figures(props: { answer: LiveAnswer }) {
  const { answer } = props;
  const { steps } = answer;
  const first = steps[0]?.first_ms;
  const last = steps.at(-1);
  const input = steps.reduce((sum, step) => sum + (step.usage?.prompt_tokens ?? 0), 0);
  const output = steps.reduce((sum, step) => sum + (step.usage?.completion_tokens ?? 0), 0);
  const streamed = (last?.duration_ms ?? 0) - (last?.first_ms ?? 0);
  const speed = last?.usage && streamed >= MIN_STREAM_MS ? Math.round((last.usage.completion_tokens * 1000) / streamed) : null;
  const cost = costOf(answer);
  const isRunning = answer.status === "running";
  return (
    <footer>
      {first != null && <span>{(first / 1000).toFixed(2)} s to first token</span>}
      {speed !== null && <span>{count(speed)} tok/s</span>}
      {input > 0 && (
        <span>
          {count(input)} in · {count(output)} out
        </span>
      )}
      <span class="end">
        {cost !== null ? (
          <b title={cost}>
            {smallAmount(cost)}
            {isRunning && " so far"}
          </b>
        ) : (
          !isRunning &&
          last?.request_id &&
          last.first_ms !== null && (
            <a href={href(`/calls?request_id=${encodeURIComponent(last.request_id)}`)}>Cost in Calls</a>
          )
        )}
      </span>
    </footer>
  );
}
