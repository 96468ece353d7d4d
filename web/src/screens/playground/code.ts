// Writes a request as code, from the very body that was sent.

import type { Token } from "../../parts/highlight.ts";
import { PUBLIC_API } from "../../shell/api.ts";

export const LANGUAGES = [
  { value: "curl", label: "curl" },
  { value: "python", label: "Python" },
  { value: "javascript", label: "JavaScript" },
] as const;

export type Language = (typeof LANGUAGES)[number]["value"];

export interface CodeRequest {
  /** Name of the request, such as that of its model. */
  label: string;
  /** Path below `/v1`. */
  path: string;
  /** JSON, or the fields of a form. A field `file` is the name of a file. */
  body: { json: string } | { form: Record<string, string> };
  headers?: Record<string, string>;
  /** Name of the file for a response that is no JSON. */
  output?: string;
}

const VARIABLE = "TOLLGATE_API_KEY";

export function addressOf(request: CodeRequest): string {
  return location.origin + PUBLIC_API.replace("/console", "") + request.path;
}

function shellQuote(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

function pretty(json: string): string {
  return JSON.stringify(JSON.parse(json), null, 2);
}

function curl(request: CodeRequest): Token[] {
  const tokens: Token[] = [
    ["c", `# First: export ${VARIABLE}=sk-…\n`],
    ["k", "curl"],
    ` ${addressOf(request)} \\\n  -H `,
    ["s", '"Authorization: Bearer '],
    ["v", `$${VARIABLE}`],
    ["s", '"'],
  ];
  for (const [name, value] of Object.entries(request.headers ?? {})) tokens.push(" \\\n  -H ", ["s", shellQuote(`${name}: ${value}`)]);
  if ("json" in request.body) {
    tokens.push(" \\\n  -H ", ["s", '"Content-Type: application/json"'], " \\\n  -d ", ["s", shellQuote(pretty(request.body.json))]);
  } else {
    for (const [name, value] of Object.entries(request.body.form)) {
      tokens.push(" \\\n  -F ", ["s", shellQuote(`${name}=${name === "file" ? "@" : ""}${value}`)]);
    }
  }
  if (request.output) tokens.push(" \\\n  -o ", ["s", shellQuote(request.output)]);
  return [...tokens, "\n"];
}

const INDENT = "    ";

function pythonLiteral(value: unknown, depth = 0): string {
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value !== "object") return JSON.stringify(value);
  const inner = INDENT.repeat(depth + 1);
  const end = INDENT.repeat(depth);
  if (Array.isArray(value)) {
    if (value.length === 0) return "[]";
    return `[\n${value.map((one) => `${inner}${pythonLiteral(one, depth + 1)},\n`).join("")}${end}]`;
  }
  const entries = Object.entries(value);
  if (entries.length === 0) return "{}";
  return `{\n${entries.map(([name, one]) => `${inner}${JSON.stringify(name)}: ${pythonLiteral(one, depth + 1)},\n`).join("")}${end}}`;
}

function isStream(request: CodeRequest): boolean {
  return "json" in request.body && (JSON.parse(request.body.json) as { stream?: unknown }).stream === true;
}

function python(request: CodeRequest): Token[] {
  const headers = Object.entries(request.headers ?? {}).map(([name, value]) => `,\n        ${JSON.stringify(name)}: ${JSON.stringify(value)}`);
  const form = "form" in request.body ? request.body.form : null;
  const tokens: Token[] = [
    ["c", "# pip install requests\n"],
    ["k", "import"],
    " os\n\n",
    ["k", "import"],
    " requests\n\nresponse = requests.post(\n    ",
    ["s", JSON.stringify(addressOf(request))],
    ",\n    headers={\n        ",
    ["s", '"Authorization"'],
    ": ",
    ["s", '"Bearer "'],
    " + os.environ[",
    ["v", JSON.stringify(VARIABLE)],
    `]${headers.join("")},\n    },\n`,
  ];
  if (form) {
    const { file, ...fields } = form;
    tokens.push(`    data=${pythonLiteral(fields, 1)},\n`);
    if (file) tokens.push("    files={", ["s", '"file"'], ": open(", ["s", JSON.stringify(file)], ", ", ["s", '"rb"'], ")},\n");
  } else if ("json" in request.body) {
    tokens.push("    json=", ["s", pythonLiteral(JSON.parse(request.body.json), 1)], ",\n");
  }
  if (isStream(request)) {
    tokens.push("    stream=True,\n)\nresponse.raise_for_status()\n", ["k", "for"], " line ", ["k", "in"], " response.iter_lines(decode_unicode=True):\n    print(line)\n");
  } else if (request.output) {
    tokens.push(")\nresponse.raise_for_status()\n", ["k", "with"], " open(", ["s", JSON.stringify(request.output)], ", ", ["s", '"wb"'], ") ", ["k", "as"], " file:\n    file.write(response.content)\n");
  } else {
    tokens.push(")\nresponse.raise_for_status()\nprint(response.json())\n");
  }
  return tokens;
}

function javascript(request: CodeRequest): Token[] {
  const headers = Object.entries(request.headers ?? {}).map(([name, value]) => `    ${JSON.stringify(name)}: ${JSON.stringify(value)},\n`);
  const tokens: Token[] = [];
  if ("form" in request.body) {
    const { file, ...fields } = request.body.form;
    tokens.push(["k", "import"], " { openAsBlob } ", ["k", "from"], " ", ["s", '"node:fs"'], ";\n\n", ["k", "const"], " form = ", ["k", "new"], " FormData();\n");
    for (const [name, value] of Object.entries(fields)) tokens.push("form.append(", ["s", JSON.stringify(name)], ", ", ["s", JSON.stringify(value)], ");\n");
    if (file) tokens.push("form.append(", ["s", '"file"'], ", ", ["k", "await"], " openAsBlob(", ["s", JSON.stringify(file)], "), ", ["s", JSON.stringify(file)], ");\n");
  }
  const body = "json" in request.body ? pretty(request.body.json).replaceAll("\n", "\n  ") : null;
  tokens.push(
    ["k", "const"],
    " response = ",
    ["k", "await"],
    " fetch(",
    ["s", JSON.stringify(addressOf(request))],
    ", {\n  method: ",
    ["s", '"POST"'],
    ",\n  headers: {\n    Authorization: ",
    ["s", "`Bearer ${"],
    "process.env.",
    ["v", VARIABLE],
    ["s", "}`"],
    `,\n${headers.join("")}`,
    ...(body === null ? ["  },\n  body: form,\n});\n"] : ["    ", ["s", '"Content-Type"'] as const, ": ", ["s", '"application/json"'] as const, ",\n  },\n  body: JSON.stringify(", ["s", body] as const, "),\n});\n"]),
  );
  if (isStream(request)) {
    tokens.push(["k", "for await"], " (", ["k", "const"], " text ", ["k", "of"], " response.body.pipeThrough(", ["k", "new"], " TextDecoderStream())) {\n  process.stdout.write(text);\n}\n");
  } else if (request.output) {
    tokens.push(["k", "import"], " { writeFile } ", ["k", "from"], " ", ["s", '"node:fs/promises"'], ";\n", ["k", "await"], " writeFile(", ["s", JSON.stringify(request.output)], ", response.body);\n");
  } else {
    tokens.push("console.log(", ["k", "await"], " response.json());\n");
  }
  return tokens;
}

const WRITERS: Record<Language, (request: CodeRequest) => Token[]> = { curl, python, javascript };

export function writeCode(request: CodeRequest, language: Language): Token[] {
  return WRITERS[language](request);
}
