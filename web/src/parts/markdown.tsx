import { createContext, type ComponentChildren, type VNode } from "preact";
import { useContext, useRef } from "preact/hooks";

import { externalLink } from "../shell/download.ts";
import { Code } from "./code.tsx";
import { TableFrame } from "./data.tsx";
import { highlight, type Token } from "./highlight.ts";
import { parseBlocks, type Align, type Block, type Inline, type ListItem } from "./markdown.ts";

interface Parsed {
  /** Text of the finished blocks. */
  head: string;
  /** Elements of the finished blocks, which stay the same objects, so that Preact skips them. */
  finished: VNode[];
}

/** Draws a mark such as `[2]`; null for a number that is no mark. */
export type DrawMark = (number: number) => ComponentChildren | null;

/** Drawing of the marks in the texts below. Without it, marks are text. */
export const Marks = createContext<DrawMark | null>(null);

/**
 * Shows markdown of a model or a person. While the text grows, only its last block is read again.
 * Links lead only to http(s) addresses and show their host; images are links.
 */
export function Markdown(props: { text: string; isGrowing?: boolean; children?: ComponentChildren }) {
  const cache = useRef<Parsed>({ head: "", finished: [] });
  if (!props.text.startsWith(cache.current.head)) cache.current = { head: "", finished: [] };
  const { head, finished } = cache.current;
  const rest = props.text.slice(head.length);
  const placed = parseBlocks(rest);
  const last = placed.at(-1);
  let tail: VNode[] = placed.map((one, index) => draw(one.block, finished.length + index));
  if (props.isGrowing && placed.length > 1 && last) {
    finished.push(...tail.slice(0, -1));
    tail = tail.slice(-1);
    cache.current.head = head + rest.slice(0, startOfLine(rest, last.line));
  }
  return (
    <div class="md">
      {finished}
      {tail}
      {props.children}
    </div>
  );
}

function startOfLine(text: string, line: number): number {
  let at = 0;
  for (let number = 0; number < line; number += 1) at = text.indexOf("\n", at) + 1;
  return at;
}

function draw(block: Block, key: number): VNode {
  switch (block.kind) {
    case "heading":
      // One level only: answers skip levels, and headings of a page may not.
      return <h3 key={key}>{inlines(block.children)}</h3>;
    case "paragraph":
      return <p key={key}>{inlines(block.children)}</p>;
    case "code":
      return (
        <Code key={key} language={block.language || "Code"} text={block.text}>
          {block.isClosed ? <Tokens tokens={highlight(block.text, block.language)} /> : block.text}
        </Code>
      );
    case "quote":
      return <blockquote key={key}>{block.blocks.map(draw)}</blockquote>;
    case "list": {
      const items = block.items.map((item, index) => <Item key={index} item={item} isLoose={block.isLoose} />);
      if (block.start === null) return <ul key={key}>{items}</ul>;
      return (
        <ol key={key} start={block.start}>
          {items}
        </ol>
      );
    }
    case "table":
      return <TableView key={key} block={block} />;
    case "rule":
      return <hr key={key} />;
  }
}

export function Tokens(props: { tokens: Token[] }) {
  return (
    <>
      {props.tokens.map((token, index) =>
        typeof token === "string" ? (
          token
        ) : (
          <span key={index} class={token[0]}>
            {token[1]}
          </span>
        ),
      )}
    </>
  );
}

function Item(props: { item: ListItem; isLoose: boolean }) {
  const { item } = props;
  const blocks = item.blocks.map((block, index) =>
    // A tight list has no paragraphs.
    block.kind === "paragraph" && !props.isLoose ? <span key={index}>{inlines(block.children)}</span> : draw(block, index),
  );
  if (item.isDone === null) return <li>{blocks}</li>;
  return (
    <li class="task">
      <span role="img" aria-label={item.isDone ? "Done" : "Open"} class={item.isDone ? "mark-done" : "mark-open"} />
      {blocks}
    </li>
  );
}

function TableView(props: { block: Extract<Block, { kind: "table" }> }) {
  const { head, rows, align } = props.block;
  const className = (index: number) => CLASSES[String(align[index])];
  return (
    <TableFrame label="Table" isGroup>
      <table>
        <thead>
          <tr>
            {head.map((cell, index) => (
              <th key={index} scope="col" class={className(index)}>
                {inlines(cell)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, number) => (
            <tr key={number}>
              {row.map((cell, index) => (
                <td key={index} class={className(index)}>
                  {inlines(cell)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </TableFrame>
  );
}

const CLASSES: Record<string, string | undefined> = { right: "n", center: "mid" } satisfies Partial<Record<NonNullable<Align>, string>>;

const SLICE_LENGTH = 400;

/** Cuts a long text at spaces. While it grows, the browser lays out only its last slice again. */
function slices(text: string): string[] {
  const found: string[] = [];
  let start = 0;
  while (text.length - start > SLICE_LENGTH) {
    const space = text.indexOf(" ", start + SLICE_LENGTH);
    if (space < 0) break;
    found.push(text.slice(start, space));
    start = space;
  }
  found.push(text.slice(start));
  return found;
}

const MARK = /\[\d+\]/;

function MarkedText(props: { text: string }) {
  const drawMark = useContext(Marks);
  if (!drawMark) return <>{slices(props.text)}</>;
  const parts = props.text.split(/(\[\d+\])/);
  return <>{parts.map((part) => (/^\[\d+\]$/.test(part) ? (drawMark(Number(part.slice(1, -1))) ?? part) : part))}</>;
}

function inlines(list: Inline[]): ComponentChildren {
  return list.map((inline, index) => {
    if (typeof inline === "string") {
      if (MARK.test(inline)) return <MarkedText key={index} text={inline} />;
      return inline.length > SLICE_LENGTH ? slices(inline) : inline;
    }
    switch (inline.kind) {
      case "strong":
        return <strong key={index}>{inlines(inline.children)}</strong>;
      case "em":
        return <em key={index}>{inlines(inline.children)}</em>;
      case "del":
        return <del key={index}>{inlines(inline.children)}</del>;
      case "code":
        return <code key={index}>{inline.text}</code>;
      case "break":
        return <br key={index} />;
      case "link":
        return <OutputLink key={index} link={inline} />;
    }
  });
}

function OutputLink(props: { link: Extract<Inline, { kind: "link" }> }) {
  const { link } = props;
  const href = externalLink(link.href);
  const children = inlines(link.children);
  if (!href) return <span>{children}</span>;
  const host = URL.parse(href)?.host ?? "";
  const label = link.children.map((child) => (typeof child === "string" ? child : "")).join("");
  return (
    <a href={href} target="_blank" rel="noopener noreferrer">
      {link.isImage && "Image: "}
      {children}
      {!label.includes(host) && <span class="muted"> ({host})</span>}
    </a>
  );
}
