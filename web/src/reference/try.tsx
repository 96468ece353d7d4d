import { useEffect, useRef, useState } from "preact/hooks";

import { CodeArea } from "../parts/area.tsx";
import { Button } from "../parts/button.tsx";
import { Code, CopyButton } from "../parts/code.tsx";
import { Dialog } from "../parts/dialog.tsx";
import { Field } from "../parts/field.tsx";
import { highlight } from "../parts/highlight.tsx";
import { Banner } from "../parts/states.tsx";
import { exchange, isOperator, toApiError, type Method } from "../shell/api.ts";
import { account, isSignedIn, loadSession, operator, role, sessionError } from "../shell/session.ts";
import type { Api, Operation } from "./openapi.ts";
import { filledPath, type Sample } from "./samples.ts";

/** Whether the console of this gateway exists. */
export function hasConsole(): boolean {
  return sessionError.value?.status !== 404;
}

/** Whether sessions can use an operation: not WebSockets, nor paths of other vendors' clients. */
export function canTry(operation: Operation): boolean {
  if (isOperator) return true;
  const isSocket = operation.replies[0]?.[0] === "101";
  return !isSocket && !operation.path.startsWith("/v1beta/") && !/:\w+$/.test(operation.path);
}

interface Result {
  status: number;
  type: string;
  headers: [string, string][];
  durationMs: number;
  text: string | null;
  /** Address of a body that is no text. */
  media: string | null;
  size: number;
  isComplete: boolean;
}

const SHOWN_HEADERS = ["x-tollgate-cost", "x-tollgate-ignored", "x-tollgate-overhead-us", "x-ratelimit-remaining-requests", "retry-after"];

/** Length up to which a text body is shown. */
const MAX_SHOWN = 200_000;

/** Sends a request of the reader's own account. */
export function TryDialog(props: { api: Api; operation: Operation; sample: Sample; onClose: () => void }) {
  return isSignedIn.value ? <RequestDialog {...props} /> : <SignInDialog onClose={props.onClose} />;
}

function SignInDialog(props: { onClose: () => void }) {
  useEffect(() => {
    const again = () => void loadSession();
    window.addEventListener("focus", again);
    return () => window.removeEventListener("focus", again);
  }, []);
  return (
    <Dialog
      title="Sign in to try it"
      size="small"
      onClose={props.onClose}
      footer={
        <>
          <Button onClick={props.onClose}>Close</Button>
          {hasConsole() && (
            <a class="btn pri" href="/console/sign-in" target="_blank">
              Sign in
            </a>
          )}
        </>
      }
    >
      <p class="muted">
        {hasConsole()
          ? "Requests from this page use your session of the console, and no API key. Sign in in the new tab, then return here."
          : "Requests from this page use a session of the console, which this gateway does not offer. Use the examples with an API key."}
      </p>
    </Dialog>
  );
}

function RequestDialog(props: { api: Api; operation: Operation; sample: Sample; onClose: () => void }) {
  const { api, operation, sample } = props;
  const [values, setValues] = useState<Record<string, string>>(() => ({
    ...known(sample.path),
    ...known(sample.query),
    ...sample.headers,
  }));
  const [body, setBody] = useState(() => (sample.body === undefined ? "" : JSON.stringify(sample.body, null, 2)));
  const [fields, setFields] = useState<Record<string, string>>(() => textFields(sample.form));
  const [files, setFiles] = useState<Record<string, File>>({});
  const [bodyError, setBodyError] = useState<string | null>(null);
  const [missing, setMissing] = useState<string | null>(null);
  const [failure, setFailure] = useState<string | null>(null);
  const [result, setResult] = useState<Result | null>(null);
  const [isBusy, setBusy] = useState(false);
  const abort = useRef<AbortController | null>(null);
  const output = useRef<HTMLDivElement>(null);
  useEffect(() => () => abort.current?.abort(), []);
  useEffect(
    () => () => {
      if (result?.media) URL.revokeObjectURL(result.media);
    },
    [result?.media],
  );
  useEffect(() => {
    if (result?.isComplete) output.current?.scrollIntoView({ block: "nearest" });
  }, [result?.isComplete]);

  const form = operation.body?.["multipart/form-data"]?.schema;
  const formSchema = form ? api.resolve(form) : null;
  const set = (name: string, value: string) => {
    setValues((old) => ({ ...old, [name]: value }));
    setMissing(null);
  };

  const send = async () => {
    if (isBusy) {
      abort.current?.abort();
      return;
    }
    const empty = operation.parameters.find((one) => (one.required || one.in === "path") && !values[one.name]);
    if (empty) return setMissing(empty.name);
    const headers: Record<string, string> = {};
    let payload: BodyInit | undefined;
    if (formSchema) {
      const data = new FormData();
      for (const [name, value] of Object.entries(fields)) if (value) data.append(name, value);
      for (const [name, file] of Object.entries(files)) data.append(name, file);
      payload = data;
    } else if (operation.body && body.trim()) {
      try {
        JSON.parse(body);
      } catch (error) {
        return setBodyError(`This is not JSON: ${(error as Error).message}`);
      }
      headers["content-type"] = "application/json";
      payload = body;
    }
    const query = new URLSearchParams();
    for (const one of operation.parameters) {
      const value = values[one.name];
      if (!value) continue;
      if (one.in === "query") query.set(one.name, value);
      if (one.in === "header") headers[one.name] = value;
    }
    const suffix = query.toString();
    const path = `/console${filledPath(operation, values)}${suffix && `?${suffix}`}`;
    const controller = new AbortController();
    abort.current = controller;
    setBusy(true);
    setFailure(null);
    setResult(null);
    try {
      const init = { headers, signal: controller.signal, ...(payload === undefined ? {} : { body: payload }) };
      await receive(await timed(() => exchange(operation.verb.toUpperCase() as Method, path, init)), setResult);
    } catch (error) {
      if (!controller.signal.aborted) setFailure(toApiError(error).message);
      else setResult((old) => (old ? { ...old, isComplete: true } : null));
    }
    setBusy(false);
  };

  const isReader = !isOperator && (role.value === "viewer" || role.value === "billing") && operation.verb !== "get";
  const who = isOperator ? operator.value?.admin.name : account.value?.name;
  return (
    <Dialog
      title="Try it"
      isSide
      onClose={props.onClose}
      onSubmit={() => void send()}
      footer={
        <>
          <span class="muted t12 grow trunc">{isOperator ? `As ${who ?? ""}` : `Charged to ${who ?? ""}`}</span>
          <Button onClick={props.onClose}>Close</Button>
          <Button kind="primary" type="submit">
            {isBusy ? "Stop" : "Send"}
          </Button>
        </>
      }
    >
      <p class="ref-route">
        <Verb verb={operation.verb} />
        <code class="breakable">{operation.path}</code>
      </p>
      {isReader && <Banner kind="warning">Your role only allows reading, so the gateway will refuse this request.</Banner>}
      {operation.parameters.map((one) => (
        <Field
          key={one.in + one.name}
          label={one.required || one.in === "path" ? one.name : `${one.name} (optional)`}
          value={values[one.name] ?? ""}
          error={missing === one.name ? `Enter ${one.name}.` : null}
          onInput={(value) => set(one.name, value)}
        />
      ))}
      {formSchema
        ? Object.entries(formSchema.properties ?? {}).map(([name, field]) => {
            const isFile = (field.items ?? api.resolve(field)).format === "binary";
            const label = formSchema.required?.includes(name) ? name : `${name} (optional)`;
            return isFile ? (
              <FileInput key={name} label={label} onChange={(file) => setFiles((old) => ({ ...old, [name]: file }))} />
            ) : (
              <Field key={name} label={label} value={fields[name] ?? ""} onInput={(value) => setFields((old) => ({ ...old, [name]: value }))} />
            );
          })
        : operation.body && (
            <CodeArea
              label="Body"
              rows={Math.min(18, Math.max(5, body.split("\n").length))}
              value={body}
              error={bodyError}
              onInput={(value) => {
                setBody(value);
                setBodyError(null);
              }}
            />
          )}
      <div ref={output} class="stack g12" role="status">
        {failure && <Banner kind="failure">{failure}</Banner>}
        {result && <ResultView result={result} />}
      </div>
    </Dialog>
  );
}

/** Omits the placeholders of values that only the reader knows. */
function known(values: Record<string, string> | undefined): Record<string, string> {
  return Object.fromEntries(Object.entries(values ?? {}).filter(([name, value]) => value !== `{${name}}` && value !== "…"));
}

function textFields(form: Record<string, string> | undefined): Record<string, string> {
  return Object.fromEntries(Object.entries(form ?? {}).filter(([, value]) => !value.startsWith("@")));
}

async function timed(send: () => Promise<Response>): Promise<{ response: Response; start: number }> {
  const start = performance.now();
  return { response: await send(), start };
}

/** Reads a response. Text appears while it arrives. */
async function receive(sent: { response: Response; start: number }, show: (result: Result) => void): Promise<void> {
  const { response, start } = sent;
  const type = response.headers.get("content-type") ?? "";
  const headers = [...response.headers].filter(([name]) => SHOWN_HEADERS.includes(name));
  const id = response.headers.get("x-request-id");
  if (id) headers.unshift(["x-request-id", id]);
  const base = { status: response.status, type, headers, durationMs: performance.now() - start, media: null, size: 0 };
  if (!/^text\/|json|event-stream|^$/.test(type)) {
    const blob = await response.blob();
    const durationMs = performance.now() - start;
    show({ ...base, durationMs, text: null, media: URL.createObjectURL(blob), size: blob.size, isComplete: true });
    return;
  }
  let text = "";
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  while (reader) {
    const { done, value } = await reader.read();
    if (done) break;
    text += value;
    if (text.length < MAX_SHOWN) show({ ...base, text, size: text.length, isComplete: false });
  }
  if (/json/.test(type) && !/jsonl/.test(type)) {
    try {
      text = JSON.stringify(JSON.parse(text), null, 2);
    } catch {
      // The text is shown unchanged.
    }
  }
  show({ ...base, durationMs: performance.now() - start, text: text.slice(0, MAX_SHOWN), size: text.length, isComplete: true });
}

function ResultView(props: { result: Result }) {
  const { result } = props;
  const media = result.media;
  return (
    <>
      <p class="row wrap t12">
        <b class={result.status < 400 ? "ok" : "bad"}>{result.status}</b>
        <span class="muted num">{Math.round(result.durationMs)} ms</span>
        <span class="muted">{result.isComplete ? result.type : "receiving …"}</span>
      </p>
      <dl class="kv t12">
        {result.headers.map(([name, value]) => (
          <>
            <dt key={name}>{name}</dt>
            <dd class="row g4">
              <code class="breakable">{value}</code>
              {name === "x-request-id" && <CopyButton text={value} label="Copy the request id" />}
            </dd>
          </>
        ))}
      </dl>
      {media && result.type.startsWith("image/") && <img class="ref-media" src={media} alt="The response" />}
      {media && result.type.startsWith("audio/") && <audio class="ref-media" controls src={media} />}
      {media && result.type.startsWith("video/") && <video class="ref-media" controls src={media} />}
      {media && !/^(image|audio|video)\//.test(result.type) && (
        <p>
          <a class="btn" href={media} download="response">
            Save the file
          </a>{" "}
          <span class="muted t12 num">{result.size.toLocaleString("en")} bytes</span>
        </p>
      )}
      {result.text !== null && (
        <Code language="Response" text={result.text} isTall isWrapped={/event-stream/.test(result.type)}>
          {highlight(result.text, /json|event-stream/.test(result.type) ? "json" : "text")}
        </Code>
      )}
    </>
  );
}

function FileInput(props: { label: string; onChange: (file: File) => void }) {
  return (
    <label class="field">
      <span class="lab">{props.label}</span>
      <span class="in">
        <input
          type="file"
          onChange={(event) => {
            const file = event.currentTarget.files?.[0];
            if (file) props.onChange(file);
          }}
        />
      </span>
    </label>
  );
}

/** The HTTP method of an operation. */
export function Verb(props: { verb: string }) {
  return <span class={`verb ${props.verb}`}>{props.verb.toUpperCase()}</span>;
}
