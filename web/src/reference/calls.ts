// Example calls in several languages, with HTTP and with the official clients.

import type { Json, Verb } from "./openapi.ts";

/** A request, independent of the language. */
export interface Call {
  operation: string;
  verb: Verb;
  /** Path with the values of its parameters. */
  path: string;
  /** Values of the path parameters, in the order of the path. */
  segments: string[];
  query: Record<string, string>;
  headers: Record<string, string>;
  json: Json | undefined;
  /** Fields of a form; the name of a file begins with `@`. */
  form: Record<string, string> | undefined;
  needsKey: boolean;
  isStream: boolean;
  /** Name of the file for a response that is no text. */
  output: string | null;
}

export const LANGUAGES = [
  { value: "curl", label: "curl" },
  { value: "python", label: "Python" },
  { value: "typescript", label: "TypeScript" },
] as const;

export type Language = (typeof LANGUAGES)[number]["value"];

const KEY = "TOLLGATE_API_KEY";
const TOKEN = "TOLLGATE_ADMIN_TOKEN";

/** Length up to which a value stays on one line. */
const LINE = 64;

function variable(call: Call): string {
  return call.path.startsWith("/admin") ? TOKEN : KEY;
}

function address(call: Call, base: string): string {
  const query = new URLSearchParams(call.query).toString();
  return base + call.path + (query && `?${query}`);
}

interface Style {
  word: (value: null | boolean) => string;
  name: (name: string) => string;
}

const PYTHON: Style = {
  word: (value) => (value === null ? "None" : value ? "True" : "False"),
  name: (name) => JSON.stringify(name),
};

const TYPESCRIPT: Style = {
  word: String,
  name: (name) => (/^[A-Za-z_$][\w$]*$/.test(name) ? name : JSON.stringify(name)),
};

/** Returns a value as source code, on one line if it is short. */
function literal(value: Json, style: Style, indent: string, step: string): string {
  if (value === null || typeof value === "boolean") return style.word(value);
  if (typeof value !== "object") return JSON.stringify(value);
  const isArray = Array.isArray(value);
  const [open, close] = isArray ? ["[", "]"] : ["{", "}"];
  const entries = isArray ? value.map((one): [null, Json] => [null, one]) : Object.entries(value);
  if (entries.length === 0) return open + close;
  const parts = (inner: string) =>
    entries.map(([name, one]) => (name === null ? "" : `${style.name(name)}: `) + literal(one, style, inner, step));
  const short = parts("").join(", ");
  const padding = isArray || style === PYTHON ? "" : " ";
  if (short.length <= LINE && !short.includes("\n")) return open + padding + short + padding + close;
  const inner = indent + step;
  return `${open}\n${parts(inner).map((part) => `${inner}${part},\n`).join("")}${indent}${close}`;
}

function curl(call: Call, base: string): string {
  const url = address(call, base);
  const lines = [`curl ${call.isStream ? "-N " : ""}${/[?{]/.test(url) ? `'${url}'` : url}`];
  if (call.verb !== "get" && !(call.verb === "post" && (call.json !== undefined || call.form))) {
    lines.push(`-X ${call.verb.toUpperCase()}`);
  }
  if (call.needsKey) lines.push(`-H "Authorization: Bearer $${variable(call)}"`);
  for (const [name, value] of Object.entries(call.headers)) lines.push(`-H '${name}: ${value}'`);
  if (call.json !== undefined) {
    const short = JSON.stringify(call.json);
    const text = short.length <= LINE ? short : JSON.stringify(call.json, null, 2).replace(/\n/g, "\n  ");
    lines.push("-H 'Content-Type: application/json'", `-d '${text.replace(/'/g, "'\\''")}'`);
  }
  for (const [name, value] of Object.entries(call.form ?? {})) lines.push(`-F ${name}=${value}`);
  if (call.output) lines.push(`-o ${call.output}`);
  return `${lines.join(" \\\n  ")}\n`;
}

function python(call: Call, base: string): string {
  const step = "    ";
  const value = (one: Json) => literal(one, PYTHON, step, step);
  const lines = [JSON.stringify(base + call.path)];
  const headers = Object.entries(call.headers).map(([name, one]) => `${JSON.stringify(name)}: ${JSON.stringify(one)}`);
  if (call.needsKey) headers.unshift(`"Authorization": f"Bearer {os.environ['${variable(call)}']}"`);
  if (headers.length > 0) lines.push(`headers={\n${headers.map((one) => `${step}${step}${one},\n`).join("")}${step}}`);
  if (Object.keys(call.query).length > 0) lines.push(`params=${value(call.query)}`);
  if (call.json !== undefined) lines.push(`json=${value(call.json)}`);
  if (call.form) {
    const isFile = ([, one]: [string, string]) => one.startsWith("@");
    const files = Object.entries(call.form).filter(isFile);
    const fields = Object.entries(call.form).filter((one) => !isFile(one));
    lines.push(`files={${files.map(([name, one]) => `"${name}": open("${one.slice(1)}", "rb")`).join(", ")}}`);
    if (fields.length > 0) lines.push(`data=${value(Object.fromEntries(fields))}`);
  }
  if (call.isStream) lines.push("stream=True");
  const end = call.isStream
    ? "for line in response.iter_lines():\n    if line:\n        print(line.decode())\n"
    : call.output
      ? `with open("${call.output}", "wb") as file:\n    file.write(response.content)\n`
      : "print(response.json())\n";
  return `# pip install requests
${call.needsKey ? "import os\n\n" : ""}import requests

response = requests.${call.verb}(
${lines.map((line) => `${step}${line},\n`).join("")})
response.raise_for_status()
${end}`;
}

function typescript(call: Call, base: string): string {
  const step = "  ";
  const parts: string[] = [];
  if (call.verb !== "get") parts.push(`method: "${call.verb.toUpperCase()}"`);
  const headers = Object.entries(call.headers).map(([name, one]) => `${TYPESCRIPT.name(name)}: ${JSON.stringify(one)}`);
  if (call.needsKey) headers.unshift(`Authorization: \`Bearer \${process.env.${variable(call)}}\``);
  if (call.json !== undefined) headers.push('"Content-Type": "application/json"');
  if (headers.length === 1) parts.push(`headers: { ${headers[0]} }`);
  else if (headers.length > 1) parts.push(`headers: {\n${headers.map((one) => `    ${one},\n`).join("")}  }`);
  let before = "";
  if (call.json !== undefined) parts.push(`body: JSON.stringify(${literal(call.json, TYPESCRIPT, step, step)})`);
  if (call.form) {
    const fields = Object.entries(call.form).map(([name, one]) =>
      one.startsWith("@")
        ? `form.append("${name}", await openAsBlob("${one.slice(1)}"), "${one.slice(1)}");\n`
        : `form.append("${name}", ${JSON.stringify(one)});\n`,
    );
    before = `import { openAsBlob } from "node:fs";\n\nconst form = new FormData();\n${fields.join("")}`;
    parts.push("body: form");
  }
  const end = call.isStream
    ? "for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) {\n  process.stdout.write(chunk);\n}\n"
    : call.output
      ? `await writeFile("${call.output}", Buffer.from(await response.arrayBuffer()));\n`
      : "console.log(await response.json());\n";
  if (call.output && !call.isStream) before = `import { writeFile } from "node:fs/promises";\n\n${before}`;
  const options = parts.length === 0 ? "" : `, {\n${parts.map((part) => `  ${part},\n`).join("")}}`;
  return `${before}const response = await fetch("${address(call, base)}"${options});
if (!response.ok) throw new Error(await response.text());
${end}`;
}

const WRITERS: Record<Language, typeof curl> = { curl, python, typescript };

/** Returns the call as HTTP, in a language. */
export function httpExample(call: Call, base: string, language: Language): string {
  return WRITERS[language](call, base);
}

interface Method {
  sdk: "openai" | "anthropic";
  /** The method in Python. TypeScript uses camel case. */
  name: string;
  /** What the example prints, from the variable `result`, in Python and TypeScript. */
  prints?: string;
}

const CHAT_TEXT = "result.choices[0].message.content";

/** Methods of the official clients by operation id. */
const METHODS: Record<string, Method> = {
  create_chat_completion: { sdk: "openai", name: "chat.completions.create", prints: CHAT_TEXT },
  create_completion: { sdk: "openai", name: "completions.create", prints: "result.choices[0].text" },
  create_embeddings: { sdk: "openai", name: "embeddings.create", prints: "result.data[0].embedding" },
  create_moderation: { sdk: "openai", name: "moderations.create" },
  create_response: { sdk: "openai", name: "responses.create", prints: "result.output_text" },
  get_response: { sdk: "openai", name: "responses.retrieve" },
  delete_response: { sdk: "openai", name: "responses.delete" },
  cancel_response: { sdk: "openai", name: "responses.cancel" },
  compact_response: { sdk: "openai", name: "responses.compact" },
  count_response_input_tokens: { sdk: "openai", name: "responses.input_tokens.count", prints: "result.input_tokens" },
  list_response_input_items: { sdk: "openai", name: "responses.input_items.list", prints: "result.data" },
  create_speech: { sdk: "openai", name: "audio.speech.create" },
  create_transcription: { sdk: "openai", name: "audio.transcriptions.create", prints: "result.text" },
  create_translation: { sdk: "openai", name: "audio.translations.create", prints: "result.text" },
  create_file: { sdk: "openai", name: "files.create", prints: "result.id" },
  list_files: { sdk: "openai", name: "files.list", prints: "result.data" },
  get_file: { sdk: "openai", name: "files.retrieve" },
  delete_file: { sdk: "openai", name: "files.delete" },
  get_file_content: { sdk: "openai", name: "files.content" },
  create_batch: { sdk: "openai", name: "batches.create", prints: "result.id" },
  list_batches: { sdk: "openai", name: "batches.list", prints: "result.data" },
  get_batch: { sdk: "openai", name: "batches.retrieve", prints: "result.status" },
  cancel_batch: { sdk: "openai", name: "batches.cancel", prints: "result.status" },
  list_models: { sdk: "openai", name: "models.list", prints: "result.data" },
  get_model: { sdk: "openai", name: "models.retrieve" },
  create_video: { sdk: "openai", name: "videos.create", prints: "result.id" },
  list_videos: { sdk: "openai", name: "videos.list", prints: "result.data" },
  get_video: { sdk: "openai", name: "videos.retrieve", prints: "result.status" },
  delete_video: { sdk: "openai", name: "videos.delete" },
  get_video_content: { sdk: "openai", name: "videos.download_content" },
  remix_video: { sdk: "openai", name: "videos.remix", prints: "result.id" },
  create_message: { sdk: "anthropic", name: "messages.create", prints: "result.content" },
  count_message_tokens: { sdk: "anthropic", name: "messages.count_tokens", prints: "result.input_tokens" },
  create_message_batch: { sdk: "anthropic", name: "messages.batches.create", prints: "result.id" },
  list_message_batches: { sdk: "anthropic", name: "messages.batches.list", prints: "result.data" },
  get_message_batch: { sdk: "anthropic", name: "messages.batches.retrieve" },
  cancel_message_batch: { sdk: "anthropic", name: "messages.batches.cancel" },
  delete_message_batch: { sdk: "anthropic", name: "messages.batches.delete" },
  get_message_batch_results: { sdk: "anthropic", name: "messages.batches.results" },
};

/** Names of the clients, for labels. */
export const SDK_NAMES = { openai: "OpenAI client", anthropic: "Anthropic client" };

/** Returns the client that has a method for an operation. */
export function sdkOf(operation: string): Method["sdk"] | null {
  return METHODS[operation]?.sdk ?? null;
}

/** Returns the call with an official client; null if there is none for the language. */
export function sdkExample(call: Call, base: string, language: Language): string | null {
  const method = METHODS[call.operation];
  if (!method || language === "curl") return null;
  return language === "python" ? pythonSdk(call, method, base) : typescriptSdk(call, method, base);
}

function isResults(call: Call): boolean {
  return call.operation === "get_message_batch_results";
}

function bodyOf(call: Call): [string, Json][] {
  if (call.json !== undefined && call.json !== null && typeof call.json === "object" && !Array.isArray(call.json)) {
    return Object.entries(call.json);
  }
  return Object.entries(call.form ?? call.query);
}

function pythonSdk(call: Call, method: Method, base: string): string {
  const isOpenAi = method.sdk === "openai";
  const client = isOpenAi ? "OpenAI" : "Anthropic";
  const step = "    ";
  const given = [
    ...call.segments.map((segment) => JSON.stringify(segment)),
    ...bodyOf(call).map(([name, value]) => {
      const isFile = call.form && typeof value === "string" && value.startsWith("@");
      return `${name}=${isFile ? `open("${String(value).slice(1)}", "rb")` : literal(value, PYTHON, step, step)}`;
    }),
  ];
  const joined = given.join(", ");
  const isShort = joined.length + method.name.length <= LINE - 16 && !joined.includes("\n");
  const inside = isShort ? joined : `\n${given.map((one) => `${step}${one},\n`).join("")}`;
  const end =
    call.isStream || isResults(call)
      ? "for event in result:\n    print(event)\n"
      : call.output
        ? `result.write_to_file("${call.output}")\n`
        : `print(${method.prints ?? "result"})\n`;
  return `# pip install ${method.sdk}
import os

from ${method.sdk} import ${client}

client = ${client}(
    base_url="${base}${isOpenAi ? "/v1" : ""}",
    api_key=os.environ["${KEY}"],
)
result = client.${method.name}(${inside})
${end}`;
}

function typescriptSdk(call: Call, method: Method, base: string): string {
  const isOpenAi = method.sdk === "openai";
  const client = isOpenAi ? "OpenAI" : "Anthropic";
  const name = method.name.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase());
  const fields = bodyOf(call);
  const given: string[] = call.segments.map((segment) => JSON.stringify(segment));
  const hasFile = !!call.form && fields.some(([, value]) => typeof value === "string" && value.startsWith("@"));
  if (fields.length > 0) {
    const parts = fields.map(([field, value]) => {
      const isFile = call.form && typeof value === "string" && value.startsWith("@");
      return `${field}: ${isFile ? `createReadStream("${String(value).slice(1)}")` : literal(value, TYPESCRIPT, "  ", "  ")}`;
    });
    const short = parts.join(", ");
    given.push(short.length + name.length <= LINE - 24 && !short.includes("\n") ? `{ ${short} }` : `{\n${parts.map((one) => `  ${one},\n`).join("")}}`);
  }
  const end =
    call.isStream || isResults(call)
      ? "for await (const event of result) console.log(event);\n"
      : call.output
        ? `await writeFile("${call.output}", Buffer.from(await result.arrayBuffer()));\n`
        : `console.log(${method.prints ?? "result"});\n`;
  const imports = [
    hasFile ? 'import { createReadStream } from "node:fs";\n' : "",
    call.output && !isResults(call) ? 'import { writeFile } from "node:fs/promises";\n' : "",
  ].join("");
  return `// npm install ${isOpenAi ? "openai" : "@anthropic-ai/sdk"}
${imports}import ${client} from "${isOpenAi ? "openai" : "@anthropic-ai/sdk"}";

const client = new ${client}({
  baseURL: "${base}${isOpenAi ? "/v1" : ""}",
  apiKey: process.env.${KEY},
});
const result = await client.${name}(${given.join(", ")});
${end}`;
}
