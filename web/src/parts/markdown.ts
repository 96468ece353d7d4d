// Reads a subset of CommonMark with tables. HTML is text. The result contains no markup:
// `markdown.tsx` makes elements of it.

export type Inline =
  | string
  | { kind: "strong" | "em" | "del"; children: Inline[] }
  | { kind: "code"; text: string }
  | { kind: "break" }
  | { kind: "link"; href: string; children: Inline[]; isImage: boolean };

export interface ListItem {
  /** State of a task; null for other items. */
  isDone: boolean | null;
  blocks: Block[];
}

export type Align = "left" | "right" | "center" | null;

export type Block =
  | { kind: "heading"; level: number; children: Inline[] }
  | { kind: "paragraph"; children: Inline[] }
  | { kind: "code"; language: string; text: string; isClosed: boolean }
  | { kind: "quote"; blocks: Block[] }
  | { kind: "list"; start: number | null; items: ListItem[]; isLoose: boolean }
  | { kind: "table"; align: Align[]; head: Inline[][]; rows: Inline[][][] }
  | { kind: "rule" };

/** A block with the number of the line at which it starts. */
export interface Placed {
  line: number;
  block: Block;
}

const FENCE = /^( {0,3})(`{3,}|~{3,})\s*([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})(?:\s+(.*?))?(?:\s+#+)?\s*$/;
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])(\s+|$)(.*)$/;
const DELIMITERS = /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/;
const TASK = /^\[([ xX])\]\s+/;

/** Deeper levels of quotes and lists are text. */
const MAX_DEPTH = 8;

export function parseBlocks(text: string, depth = 0): Placed[] {
  const lines = text.split("\n");
  const placed: Placed[] = [];
  let at = 0;
  while (at < lines.length) {
    const line = lines[at] ?? "";
    if (!line.trim()) {
      at += 1;
      continue;
    }
    const start = at;
    const [block, next] = readBlock(lines, at, depth);
    placed.push({ line: start, block });
    at = next;
  }
  return placed;
}

function readBlock(lines: string[], start: number, depth: number): [Block, number] {
  const line = lines[start] ?? "";
  const fence = FENCE.exec(line);
  if (fence) return readFence(lines, start, fence);
  const heading = HEADING.exec(line);
  if (heading) return [{ kind: "heading", level: (heading[1] ?? "#").length, children: parseInline(heading[2] ?? "") }, start + 1];
  if (RULE.test(line)) return [{ kind: "rule" }, start + 1];
  if (depth < MAX_DEPTH && QUOTE.test(line)) {
    let at = start;
    const inner: string[] = [];
    while (at < lines.length && (lines[at] ?? "").trim() && (QUOTE.test(lines[at] ?? "") || !startsBlock(lines[at] ?? ""))) {
      inner.push((lines[at] ?? "").replace(QUOTE, ""));
      at += 1;
    }
    return [{ kind: "quote", blocks: parseBlocks(inner.join("\n"), depth + 1).map((one) => one.block) }, at];
  }
  if (depth < MAX_DEPTH && ITEM.test(line)) return readList(lines, start, depth);
  if (line.includes("|") && DELIMITERS.test(lines[start + 1] ?? "") && cells(line).length === cells(lines[start + 1] ?? "").length) {
    return readTable(lines, start);
  }
  let at = start + 1;
  while (at < lines.length && (lines[at] ?? "").trim() && !startsBlock(lines[at] ?? "")) at += 1;
  const paragraph = lines.slice(start, at).map((one) => one.replace(/^ {1,3}/, ""));
  return [{ kind: "paragraph", children: parseInline(paragraph.join("\n")) }, at];
}

/** Whether a line ends the paragraph before it. */
function startsBlock(line: string): boolean {
  const item = ITEM.exec(line);
  const isItem = item !== null && item[4] !== "" && !/^(?!1[.)])\d/.test(item[2] ?? "");
  return isItem || FENCE.test(line) || HEADING.test(line) || QUOTE.test(line) || RULE.test(line);
}

function readFence(lines: string[], start: number, fence: RegExpExecArray): [Block, number] {
  const [, indent = "", mark = "```", info = ""] = fence;
  const closing = new RegExp(`^ {0,3}${mark[0] === "~" ? "~" : "`"}{${mark.length},}\\s*$`);
  const text: string[] = [];
  let at = start + 1;
  while (at < lines.length && !closing.test(lines[at] ?? "")) {
    text.push((lines[at] ?? "").replace(new RegExp(`^ {0,${indent.length}}`), ""));
    at += 1;
  }
  const isClosed = at < lines.length;
  return [{ kind: "code", language: info.trim().split(/\s/)[0] ?? "", text: text.join("\n"), isClosed }, at + 1];
}

function readList(lines: string[], start: number, depth: number): [Block, number] {
  const first = ITEM.exec(lines[start] ?? "");
  const mark = first?.[2] ?? "-";
  const isOrdered = /\d/.test(mark);
  const kindOf = (found: string) => (/\d/.test(found) ? found.slice(-1) : found);
  const items: ListItem[] = [];
  let isLoose = false;
  let at = start;
  while (at < lines.length) {
    const item = ITEM.exec(lines[at] ?? "");
    if (!item || kindOf(item[2] ?? "") !== kindOf(mark) || RULE.test(lines[at] ?? "")) break;
    const [, indent = "", bullet = "", space = "", rest = ""] = item;
    const width = indent.length + bullet.length + (space.length > 4 || !space ? 1 : space.length);
    const inner = [rest];
    at += 1;
    let hasBlank = false;
    while (at < lines.length) {
      const line = lines[at] ?? "";
      const depthOfLine = line.length - line.trimStart().length;
      if (!line.trim()) {
        hasBlank = true;
        inner.push("");
      } else if (depthOfLine >= Math.min(width, 2) && depthOfLine > indent.length) {
        if (hasBlank) isLoose = true;
        hasBlank = false;
        inner.push(line.slice(Math.min(width, depthOfLine)));
      } else if (!hasBlank && !ITEM.test(line) && !startsBlock(line)) {
        inner.push(line);
      } else {
        break;
      }
      at += 1;
    }
    if (hasBlank && at < lines.length && kindOf(ITEM.exec(lines[at] ?? "")?.[2] ?? "") === kindOf(mark)) isLoose = true;
    const task = TASK.exec(inner[0] ?? "");
    if (task) inner[0] = (inner[0] ?? "").slice(task[0].length);
    items.push({
      isDone: task ? task[1] !== " " : null,
      blocks: parseBlocks(inner.join("\n"), depth + 1).map((one) => one.block),
    });
  }
  return [{ kind: "list", start: isOrdered ? Number.parseInt(mark, 10) : null, items, isLoose }, at];
}

function cells(line: string): string[] {
  const inner = line.trim().replace(/^\|/, "").replace(/(^|[^\\])\|$/, "$1");
  return inner.split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
}

function readTable(lines: string[], start: number): [Block, number] {
  const head = cells(lines[start] ?? "");
  const align = cells(lines[start + 1] ?? "").map((cell): Align => {
    const isRight = cell.endsWith(":");
    if (cell.startsWith(":")) return isRight ? "center" : "left";
    return isRight ? "right" : null;
  });
  const rows: string[][] = [];
  let at = start + 2;
  while (at < lines.length && (lines[at] ?? "").trim() && !startsBlock(lines[at] ?? "")) {
    const row = cells(lines[at] ?? "");
    rows.push(head.map((_, index) => row[index] ?? ""));
    at += 1;
  }
  return [
    { kind: "table", align, head: head.map(parseInline), rows: rows.map((row) => row.map(parseInline)) },
    at,
  ];
}

const PUNCTUATION = /[!-/:-@[-`{-~]/;
const ADDRESS = /^https?:\/\/[^\s<>"']+/i;
const ANGLE = /^<((?:https?:\/\/)[^\s<>]+)>/i;
const WORD = /[\p{L}\p{N}]/u;

/** Longer spans of emphasis and links are text, so that the time is linear. */
const MAX_SPAN = 4000;

export function parseInline(text: string): Inline[] {
  const out: Inline[] = [];
  let plain = "";
  let at = 0;
  const flush = () => {
    if (plain) out.push(plain);
    plain = "";
  };
  const push = (inline: Inline) => {
    flush();
    out.push(inline);
  };
  while (at < text.length) {
    const char = text[at] ?? "";
    if (char === "\\" && PUNCTUATION.test(text[at + 1] ?? "")) {
      plain += text[at + 1];
      at += 2;
    } else if (char === "\n") {
      const isHard = /( {2,}|\\)$/.test(plain);
      plain = plain.replace(/( +|\\)$/, "");
      if (isHard) push({ kind: "break" });
      else plain += " ";
      at += 1;
    } else if (char === "`") {
      const ticks = /^`+/.exec(text.slice(at, at + 64))?.[0] ?? "`";
      const end = closingTicks(text, at + ticks.length, ticks.length);
      if (end < 0) {
        plain += ticks;
        at += ticks.length;
      } else {
        const code = text.slice(at + ticks.length, end).replaceAll("\n", " ");
        push({ kind: "code", text: /^ .*[^ ].* $/.test(code) ? code.slice(1, -1) : code });
        at = end + ticks.length;
      }
    } else if (char === "[" || (char === "!" && text[at + 1] === "[")) {
      const link = readLink(text, at);
      if (link) {
        push(link.inline);
        at = link.end;
      } else {
        plain += char;
        at += 1;
      }
    } else if (char === "*" || char === "_" || char === "~") {
      const span = readSpan(text, at, char);
      if (span) {
        push(span.inline);
        at = span.end;
      } else {
        const run = /^(.)\1*/.exec(text.slice(at, at + 16))?.[0] ?? char;
        plain += run;
        at += run.length;
      }
    } else if (char === "<") {
      const angle = ANGLE.exec(text.slice(at, at + MAX_SPAN));
      if (angle?.[1]) {
        push({ kind: "link", href: angle[1], children: [angle[1]], isImage: false });
        at += angle[0].length;
      } else {
        plain += char;
        at += 1;
      }
    } else if (char === "h" && !WORD.test(text[at - 1] ?? "")) {
      const found = ADDRESS.exec(text.slice(at, at + MAX_SPAN))?.[0].replace(/[?!.,:*_~)\]]+$/, "");
      if (found) {
        push({ kind: "link", href: found, children: [found], isImage: false });
        at += found.length;
      } else {
        plain += char;
        at += 1;
      }
    } else {
      plain += char;
      at += 1;
    }
  }
  flush();
  return out;
}

function closingTicks(text: string, from: number, length: number): number {
  let at = text.indexOf("`", from);
  while (at >= 0 && at - from < MAX_SPAN) {
    let end = at;
    while (text[end] === "`") end += 1;
    if (end - at === length) return at;
    at = text.indexOf("`", end);
  }
  return -1;
}

/** Returns the place of the bracket that closes the one at `from`, or −1. */
function closing(text: string, from: number, open: string, close: string): number {
  let depth = 0;
  const last = Math.min(text.length, from + MAX_SPAN);
  for (let at = from; at < last; at += 1) {
    const char = text[at];
    if (char === "\\") at += 1;
    else if (char === open) depth += 1;
    else if (char === close) {
      depth -= 1;
      if (depth === 0) return at;
    }
  }
  return -1;
}

function readLink(text: string, at: number): { inline: Inline; end: number } | null {
  const isImage = text[at] === "!";
  const start = isImage ? at + 1 : at;
  const label = closing(text, start, "[", "]");
  if (label < 0 || text[label + 1] !== "(") return null;
  const end = closing(text, label + 1, "(", ")");
  if (end < 0) return null;
  const target = text.slice(label + 2, end).trim();
  const href = /^<([^<>\n]*)>/.exec(target)?.[1] ?? target.split(/\s/)[0] ?? "";
  const children = parseInline(text.slice(start + 1, label));
  return { inline: { kind: "link", href, children: children.length > 0 ? children : [href], isImage }, end: end + 1 };
}

function readSpan(text: string, at: number, mark: string): { inline: Inline; end: number } | null {
  const isWordBefore = WORD.test(text[at - 1] ?? "");
  if (mark === "_" && isWordBefore) return null;
  const isDouble = text[at + 1] === mark;
  if (mark === "~" && !isDouble) return null;
  const fence = isDouble ? mark + mark : mark;
  const start = at + fence.length;
  if (/\s/.test(text[start] ?? " ")) return null;
  let end = start;
  const last = Math.min(text.length, start + MAX_SPAN);
  for (;;) {
    end = text.indexOf(fence, end + 1);
    if (end < 0 || end >= last) return null;
    const isEscaped = text[end - 1] === "\\";
    const isClosing = !/\s/.test(text[end - 1] ?? " ");
    const isInWord = mark === "_" && WORD.test(text[end + fence.length] ?? "");
    const isPartOfDouble = !isDouble && (text[end + 1] === mark || text[end - 1] === mark);
    if (isPartOfDouble && text[end + 1] === mark) end += 1;
    if (!isEscaped && isClosing && !isInWord && !isPartOfDouble) break;
  }
  // `***both***`: the closing marks of the outer span are the last ones.
  while (isDouble && text[end + fence.length] === mark) end += 1;
  const kind = mark === "~" ? "del" : isDouble ? "strong" : "em";
  return { inline: { kind, children: parseInline(text.slice(start, end)) }, end: end + fence.length };
}
