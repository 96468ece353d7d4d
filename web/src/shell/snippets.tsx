import { useState } from "preact/hooks";

import { Code } from "../parts/code.tsx";
import { Segments } from "../parts/data.tsx";
import { PUBLIC_API } from "./api.ts";
import { usage } from "./usage.ts";

/** Text, or text with the class of its colour: comment, keyword, string or variable. */
type Token = string | readonly ["c" | "k" | "s" | "v", string];

const LANGUAGES = [
  { value: "curl", label: "curl" },
  { value: "python", label: "Python" },
  { value: "javascript", label: "JavaScript" },
] as const;

type Language = (typeof LANGUAGES)[number]["value"];

const CHAT_PATH = "/chat/completions";

const SIMULATED_MODEL = "sim/chat";

const VARIABLE = "TOLLGATE_API_KEY";

/** Returns the model of the latest chat call, else the model of the simulator. */
export function knownChatModel(): string {
  const rows = usage.value.data?.data ?? [];
  const call = rows.find((row) => row.outcome === "ok" && row.endpoint.endsWith(CHAT_PATH) && row.requested_model);
  return call?.requested_model ?? SIMULATED_MODEL;
}

function curl(base: string, model: string, key: string | null): Token[] {
  return [
    ...(key ? [] : [["c", `# First: export ${VARIABLE}=sk-…\n`] as const]),
    ["k", "curl"],
    ` ${base}${CHAT_PATH} \\\n  -H `,
    ["s", '"Authorization: Bearer '],
    ["v", key ?? `$${VARIABLE}`],
    ["s", '"'],
    " \\\n  -H ",
    ["s", '"Content-Type: application/json"'],
    " \\\n  -d ",
    ["s", `'{"model": "${model}",\n       "messages": [{"role": "user", "content": "Say hello."}]}'`],
    "\n",
  ];
}

function python(base: string, model: string, key: string | null): Token[] {
  return [
    ["c", "# pip install openai\n"],
    ...(key ? [] : [["k", "import"] as const, " os\n\n"]),
    ["k", "from"],
    " openai ",
    ["k", "import"],
    " OpenAI\n\nclient = OpenAI(\n    base_url=",
    ["s", `"${base}"`],
    ",\n    api_key=",
    ...(key ? [["v", `"${key}"`] as const] : ["os.environ[", ["v", `"${VARIABLE}"`] as const, "]"]),
    ",\n)\nanswer = client.chat.completions.create(\n    model=",
    ["s", `"${model}"`],
    ",\n    messages=[{",
    ["s", '"role"'],
    ": ",
    ["s", '"user"'],
    ", ",
    ["s", '"content"'],
    ": ",
    ["s", '"Say hello."'],
    "}],\n)\nprint(answer.choices[0].message.content)\n",
  ];
}

function javascript(base: string, model: string, key: string | null): Token[] {
  return [
    ["c", "// npm install openai\n"],
    ["k", "import"],
    " OpenAI ",
    ["k", "from"],
    " ",
    ["s", '"openai"'],
    ";\n\n",
    ["k", "const"],
    " client = ",
    ["k", "new"],
    " OpenAI({\n  baseURL: ",
    ["s", `"${base}"`],
    ",\n  apiKey: ",
    ...(key ? [["v", `"${key}"`] as const] : ["process.env.", ["v", VARIABLE] as const]),
    ",\n});\n",
    ["k", "const"],
    " answer = ",
    ["k", "await"],
    " client.chat.completions.create({\n  model: ",
    ["s", `"${model}"`],
    ",\n  messages: [{ role: ",
    ["s", '"user"'],
    ", content: ",
    ["s", '"Say hello."'],
    " }],\n});\nconsole.log(answer.choices[0].message.content);\n",
  ];
}

const WRITERS: Record<Language, typeof curl> = { curl, python, javascript };

/** A first call in three languages. Without `apiKey`, the code reads an environment variable. */
export function Snippets(props: { model: string; apiKey?: string }) {
  const [language, setLanguage] = useState<Language>("curl");
  const base = location.origin + PUBLIC_API.replace("/console", "");
  const tokens = WRITERS[language](base, props.model, props.apiKey ?? null);
  const text = tokens.map((token) => (typeof token === "string" ? token : token[1])).join("");
  return (
    <Code
      language="First call"
      text={text}
      header={<Segments label="Language" isFlat value={language} options={LANGUAGES} onChange={setLanguage} />}
    >
      {tokens.map((token, index) =>
        typeof token === "string" ? (
          token
        ) : (
          <span key={index} class={token[0]}>
            {token[1]}
          </span>
        ),
      )}
    </Code>
  );
}
