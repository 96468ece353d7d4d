import { signal } from "@preact/signals";

import { Code } from "../parts/code.tsx";
import { Segments } from "../parts/data.tsx";
import { highlight, type CodeLanguage } from "../parts/highlight.tsx";
import { store, stored } from "../shell/theme.ts";
import { httpExample, LANGUAGES, sdkExample, sdkOf, SDK_NAMES, type Language } from "./calls.ts";
import type { Api, Operation } from "./openapi.ts";
import { callOf, samplesOf, type Sample, type Samples } from "./samples.ts";

const LANGUAGE = "tollgate.docs.language";
const CLIENT = "tollgate.docs.client";

const language = signal<Language>(LANGUAGES.find((one) => one.value === stored(LANGUAGE))?.value ?? "curl");
const client = signal<"http" | "sdk">(stored(CLIENT) === "http" ? "http" : "sdk");

const COLOURS: Record<Language, CodeLanguage> = { curl: "shell", python: "python", typescript: "typescript" };

/** Requests and responses of an operation, beside its description. */
export function Examples(props: {
  api: Api;
  samples: Samples;
  operation: Operation;
  shown: number;
  onShow: (sample: number) => void;
  /** Shows only the first sample, without a choice. */
  isSingle?: boolean;
}) {
  const samples = samplesOf(props.api, props.samples, props.operation);
  const sample = samples[props.shown] ?? samples[0];
  if (!sample) return null;
  return (
    <>
      {samples.length > 1 && !props.isSingle && (
        <div class="ref-variants">
          <Segments
            label="Example"
            value={String(props.shown)}
            options={samples.map((one, index) => ({ value: String(index), label: one.title }))}
            onChange={(index) => props.onShow(Number(index))}
          />
        </div>
      )}
      <RequestExample operation={props.operation} sample={sample} />
      <ResponseExample sample={sample} />
    </>
  );
}

function RequestExample(props: { operation: Operation; sample: Sample }) {
  const { operation } = props;
  const call = callOf(operation, props.sample);
  const sdk = language.value === "curl" ? null : sdkOf(operation.id);
  const base = location.origin;
  const text =
    (sdk && client.value === "sdk" && sdkExample(call, base, language.value)) || httpExample(call, base, language.value);
  return (
    <Code
      language="Request"
      text={text}
      header={
        <Segments
          label="Language"
          isFlat
          value={language.value}
          options={LANGUAGES}
          onChange={(value) => {
            language.value = value;
            store(LANGUAGE, value);
          }}
        />
      }
      {...(sdk
        ? {
            subheader: (
              <Segments
                label="Client"
                isFlat
                value={client.value}
                options={[
                  { value: "sdk", label: SDK_NAMES[sdk] },
                  { value: "http", label: "HTTP" },
                ]}
                onChange={(value) => {
                  client.value = value;
                  store(CLIENT, value);
                }}
              />
            ),
          }
        : {})}
    >
      {highlight(text, COLOURS[language.value])}
    </Code>
  );
}

function ResponseExample(props: { sample: Sample }) {
  const { status, response, content_type: type = "", response_headers: headers = {} } = props.sample;
  if (status === undefined) return null;
  const isJson = typeof response !== "string";
  const body = response === undefined ? "" : isJson ? JSON.stringify(response, null, 2) : response;
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  const text = [...lines, ...(lines.length > 0 && body ? ["", ""] : []), body].join("\n").replace(/\n\n\n/, "\n\n");
  return (
    <Code
      language="Response"
      text={body || text}
      isTall
      isWrapped={!isJson}
      header={
        <span class="row t12">
          <span class={status < 300 ? "ok strong" : "bad strong"}>{status}</span>
          <span class="muted trunc">{type}</span>
        </span>
      }
      footer={
        response === undefined
          ? "The body is a file. Recorded with the models of the simulator; ids and times are placeholders."
          : "Recorded with the models of the simulator; ids and times are placeholders."
      }
    >
      {lines.map((line) => (
        <span key={line} class="c">
          {line}
          {"\n"}
        </span>
      ))}
      {lines.length > 0 && body && "\n"}
      {highlight(body, isJson || /jsonl|event-stream/.test(type) ? "json" : "text")}
    </Code>
  );
}
