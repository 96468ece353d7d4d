// Colours for code in answers: comments, strings, keywords and numbers.

/** Text, or text with the class of its colour: comment, keyword, string or variable. */
export type Token = string | readonly ["c" | "k" | "s" | "v", string];

const KEYWORDS =
  "abstract and as assert async await break case catch class const continue def default delete do elif else enum except export extends extern false final finally fn for from func function go if impl implements import in instanceof interface is lambda let loop match mod module mut namespace new nil none None not null of or package pass private protected pub public raise ref return select self static struct super switch this throw trait true True False try type typeof undefined union unsafe use using var void where while with yield SELECT FROM WHERE INSERT INTO VALUES UPDATE SET DELETE CREATE TABLE JOIN ON GROUP BY ORDER LIMIT AND OR NOT NULL";

const WORDS = new Set(KEYWORDS.split(" "));

const HASH_COMMENTS = /^(py|python|sh|bash|shell|zsh|rb|ruby|yaml|yml|toml|ini|make|makefile|dockerfile|r|perl)$/;
const DASH_COMMENTS = /^(sql|lua|haskell|hs)$/;
const PLAIN = /^(|text|txt|plain|markdown|md|log|output)$/;

const STRINGS = `"(?:\\\\.|[^"\\\\\\n])*"|'(?:\\\\.|[^'\\\\\\n])*'|\`(?:\\\\.|[^\`\\\\])*\``;
const NAMES = "[A-Za-z_$][\\w$]*";
const NUMBERS = "\\b\\d[\\w.]*";

/** Longer code stays without colours. */
const MAX_LENGTH = 50_000;

function comments(language: string): string {
  if (HASH_COMMENTS.test(language)) return "#[^\\n]*";
  if (DASH_COMMENTS.test(language)) return "--[^\\n]*";
  if (/^(html|xml|svg)$/.test(language)) return "<!--[^]*?-->";
  if (/^(json|css)$/.test(language)) return "/\\*[^]*?\\*/";
  return "//[^\\n]*|/\\*[^]*?\\*/";
}

export function highlight(text: string, language: string): Token[] {
  const name = language.toLowerCase();
  if (PLAIN.test(name) || text.length > MAX_LENGTH) return [text];
  const pattern = new RegExp(`(${comments(name)})|(${STRINGS})|(${NUMBERS})|(${NAMES})`, "g");
  const tokens: Token[] = [];
  let end = 0;
  for (const match of text.matchAll(pattern)) {
    const [whole, comment, string, number, word] = match;
    const kind = comment ? "c" : string ? "s" : number ? "v" : word && WORDS.has(word) ? "k" : null;
    if (!kind) continue;
    if (match.index > end) tokens.push(text.slice(end, match.index));
    tokens.push([kind, whole]);
    end = match.index + whole.length;
  }
  if (end < text.length) tokens.push(text.slice(end));
  return tokens;
}
