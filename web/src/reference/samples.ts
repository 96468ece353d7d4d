// Requests and responses that a gateway with the simulator's models really exchanged.

import { exampleOf, isStreamable, type Api, type Json, type Operation, type Schema } from "./openapi.ts";
import type { Call } from "./calls.ts";

/** A recorded exchange. Without `status`, it is only an example of a request. */
export interface Sample {
  title: string;
  path?: Record<string, string>;
  query?: Record<string, string>;
  headers?: Record<string, string>;
  body?: Json;
  /** Fields of a form; the name of a file begins with `@`. */
  form?: Record<string, string>;
  status?: number;
  content_type?: string;
  /** Selected headers of the response. */
  response_headers?: Record<string, string>;
  /** JSON, or text of another type. Absent for binary content. */
  response?: Json;
}

export type Samples = Record<string, Sample[]>;

/** Returns the recorded samples of an operation, or a sample request from its description. */
export function samplesOf(api: Api, samples: Samples, operation: Operation): Sample[] {
  const recorded = samples[operation.id];
  if (recorded && recorded.length > 0) return recorded;
  const sample: Sample = { title: "Example" };
  for (const parameter of operation.parameters) {
    if (parameter.in === "header" || (parameter.in === "query" && !parameter.required)) continue;
    const example = String(parameter.example ?? exampleOf(api, parameter.schema));
    const value = example === "…" ? `{${parameter.name}}` : example;
    const place = parameter.in === "path" ? "path" : "query";
    sample[place] = { ...sample[place], [parameter.name]: value };
  }
  const json = operation.body?.["application/json"];
  if (json) {
    sample.body = json.example ?? exampleOf(api, json.schema);
    const { body } = sample;
    if (isStreamable(api, operation) && body && typeof body === "object" && !Array.isArray(body)) {
      return [sample, { ...sample, title: "Stream", body: { ...body, stream: true } }];
    }
  }
  const form = operation.body?.["multipart/form-data"];
  if (form) sample.form = formOf(api, form.schema);
  return [sample];
}

function formOf(api: Api, schema: Schema | undefined): Record<string, string> {
  const { properties = {}, required = [] } = api.resolve(schema);
  return Object.fromEntries(
    required.map((name) => {
      const field = api.resolve(properties[name]);
      const isFile = (field.items ?? field).format === "binary";
      return [name, isFile ? `@${name}` : String(exampleOf(api, field))];
    }),
  );
}

/** Returns the path of an operation with the values of a sample. Slashes in values stay. */
export function filledPath(operation: Operation, values: Record<string, string>): string {
  return operation.path.replace(/\{(\w+)\}/g, (_, name: string) =>
    encodeURIComponent(values[name] ?? `{${name}}`).replace(/%2F/g, "/").replace(/%7B/g, "{").replace(/%7D/g, "}"),
  );
}

const OUTPUTS: readonly [RegExp, string][] = [
  [/^audio\//, "speech.mp3"],
  [/^image\//, "image.jpg"],
  [/^video\//, "video.mp4"],
  [/jsonl/, "results.jsonl"],
  [/octet-stream/, "output.bin"],
];

/** Returns the call of a sample. */
export function callOf(operation: Operation, sample: Sample): Call {
  const type = sample.content_type ?? Object.keys(operation.replies[0]?.[1].content ?? {})[0] ?? "";
  const isStream = /event-stream/.test(type) || hasStream(sample.body);
  const segments = [...operation.path.matchAll(/\{(\w+)\}/g)].map((match) => sample.path?.[match[1] ?? ""] ?? `{${match[1]}}`);
  return {
    operation: operation.id,
    verb: operation.verb,
    path: filledPath(operation, sample.path ?? {}),
    segments,
    query: sample.query ?? {},
    headers: sample.headers ?? {},
    json: sample.body,
    form: sample.form,
    needsKey: operation.needsKey,
    isStream,
    output: isStream ? null : (OUTPUTS.find(([pattern]) => pattern.test(type))?.[1] ?? null),
  };
}

function hasStream(body: Json | undefined): boolean {
  return !!body && typeof body === "object" && !Array.isArray(body) && body["stream"] === true;
}
