import type { ComponentChildren } from "preact";

/** Languages whose words have colours; text of others has none. */
export type CodeLanguage = "json" | "shell" | "python" | "typescript" | "toml" | "text";

/** Longer texts have no colours, so that the page stays quick. */
const MAX_LENGTH = 60_000;

const STRING = /"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'/.source;
const NUMBER = /-?\b\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?\b/.source;

/** Classes of the named groups: comment, keyword, string and variable. */
const PATTERNS: Record<Exclude<CodeLanguage, "text">, RegExp> = {
  json: new RegExp(`(?<v>"(?:\\\\.|[^"\\\\])*"(?=\\s*:))|(?<s>"(?:\\\\.|[^"\\\\])*")|(?<k>\\b(?:true|false|null)\\b|${NUMBER})`, "g"),
  shell: /(?<c>(?:^|(?<=\s))#.*)|(?<v>\$\{?\w+\}?)|(?<k>(?:^|(?<=\n))\s*(?:curl|export|tollgate|cargo|docker|make|psql|pip|npm)\b)|(?<s>'[^']*'|"(?:\\.|[^"\\$])*"?)/g,
  python: new RegExp(
    `(?<c>#.*)|(?<s>[fb]?(?:${STRING}))|(?<k>\\b(?:import|from|as|with|open|for|in|if|not|print|def|return|True|False|None)\\b|${NUMBER})`,
    "g",
  ),
  typescript: new RegExp(
    `(?<c>\\/\\/.*)|(?<s>${STRING}|\`[^\`]*\`)|(?<k>\\b(?:import|from|const|await|async|new|for|of|if|throw|return|true|false|null)\\b|${NUMBER})`,
    "g",
  ),
  toml: new RegExp(`(?<c>#.*)|(?<v>(?:^|(?<=\\n))\\[[^\\n]*\\])|(?<s>${STRING})|(?<k>\\b(?:true|false)\\b|${NUMBER})`, "g"),
};

const ALIASES: Record<string, CodeLanguage> = {
  sh: "shell",
  bash: "shell",
  console: "shell",
  py: "python",
  ts: "typescript",
  js: "typescript",
  javascript: "typescript",
  jsonl: "json",
};

/** Returns the language of a name in a Markdown document. */
export function languageOf(name: string): CodeLanguage {
  if (Object.hasOwn(PATTERNS, name)) return name as CodeLanguage;
  return (Object.hasOwn(ALIASES, name) && ALIASES[name]) || "text";
}

const NAMES: Record<CodeLanguage, string> = {
  json: "JSON",
  shell: "Shell",
  python: "Python",
  typescript: "TypeScript",
  toml: "TOML",
  text: "Text",
};

/** Returns the name of a language for people. */
export function languageName(language: CodeLanguage): string {
  return NAMES[language];
}

/** Returns a text with coloured words. */
export function highlight(text: string, language: CodeLanguage): ComponentChildren {
  if (language === "text" || text.length > MAX_LENGTH) return text;
  const out: ComponentChildren[] = [];
  let end = 0;
  for (const match of text.matchAll(PATTERNS[language])) {
    const kind = Object.entries(match.groups ?? {}).find(([, value]) => value !== undefined)?.[0];
    if (!kind || match[0] === "") continue;
    out.push(
      text.slice(end, match.index),
      <span key={match.index} class={kind}>
        {match[0]}
      </span>,
    );
    end = match.index + match[0].length;
  }
  out.push(text.slice(end));
  return out;
}
