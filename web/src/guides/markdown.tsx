import { lexer, type Token, type Tokens } from "marked";
import type { ComponentChildren, JSX } from "preact";

import { Code } from "../parts/code.tsx";
import { TableFrame } from "../parts/data.tsx";
import { highlight, languageName, languageOf } from "../parts/highlight.tsx";

interface MarkdownProps {
  text: string;
  /** Returns the address for the target of a link; null shows the text only. */
  resolve?: (target: string) => string | null;
}

type Resolve = (target: string) => string | null;

export interface MarkdownHeading {
  id: string;
  text: string;
  /** Level from 2; the title of the page has level 1. */
  level: number;
}

/** Allows only addresses of web pages. */
function webAddress(target: string): string | null {
  return /^https?:\/\//.test(target) ? target : null;
}

/**
 * A text in Markdown. Its HTML stays text, an image becomes a link, and links lead only to web pages
 * unless `resolve` allows others.
 */
export function Markdown(props: MarkdownProps) {
  const resolve = props.resolve ?? webAddress;
  return <div class="guide">{blocks(parse(props.text), resolve)}</div>;
}

interface Heading extends Tokens.Heading {
  id: string;
  /** Level on the page, whose title has level 1. */
  level: number;
}

/** Returns the tokens of a text. Headings have ids as on GitHub, where repeated ones have a number. */
function parse(text: string): Token[] {
  const tokens = lexer(text);
  const headings = tokens.filter((token): token is Heading => token.type === "heading");
  const top = Math.min(...headings.map((heading) => heading.depth));
  const seen = new Map<string, number>();
  for (const heading of headings) {
    const id = headingId(plain(heading.tokens));
    const count = seen.get(id) ?? 0;
    seen.set(id, count + 1);
    heading.id = count > 0 ? `${id}-${count}` : id;
    heading.level = heading.depth - top + 2;
  }
  return tokens;
}

/** Returns the id of a heading, as GitHub writes it. */
function headingId(text: string): string {
  return text.toLowerCase().replace(/[^\p{L}\p{N}_\- ]/gu, "").replace(/ /g, "-");
}

function plain(tokens: Token[]): string {
  return tokens.map((token) => ("tokens" in token && token.tokens ? plain(token.tokens) : "text" in token ? unescape(String(token.text)) : "")).join("");
}

/** Lists the headings of a text. */
export function headingsOf(text: string): MarkdownHeading[] {
  return parse(text)
    .filter((token): token is Heading => token.type === "heading")
    .map((heading) => ({ id: heading.id, text: plain(heading.tokens), level: heading.level }));
}

const ENTITIES: Record<string, string> = { "&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": '"', "&#39;": "'", "&nbsp;": "\u00a0" };

function unescape(text: string): string {
  return text.replace(/&(amp|lt|gt|quot|#39|nbsp);/g, (entity) => ENTITIES[entity] ?? entity);
}

function blocks(tokens: Token[], resolve: Resolve): ComponentChildren {
  return tokens.map((token, index) => <Block key={index} token={token} resolve={resolve} />);
}

function Block(props: { token: Token; resolve: Resolve }): JSX.Element | null {
  const { resolve } = props;
  const token = props.token as Tokens.Generic;
  switch (token.type) {
    case "heading": {
      const { id, level, tokens } = token as Heading;
      const content = inline(tokens, resolve);
      if (level === 2) return <h2 id={id}>{content}</h2>;
      return level === 3 ? <h3 id={id}>{content}</h3> : <h4 id={id}>{content}</h4>;
    }
    case "paragraph":
      return <p>{inline(token.tokens ?? [], resolve)}</p>;
    case "text":
      return <>{token.tokens ? inline(token.tokens, resolve) : unescape(String(token.text))}</>;
    case "code": {
      const code = token as Tokens.Code;
      const language = languageOf(code.lang?.split(/\s/)[0] ?? "");
      return (
        <Code language={languageName(language)} text={code.text}>
          {highlight(code.text, language)}
        </Code>
      );
    }
    case "blockquote":
      return <blockquote>{blocks(token.tokens ?? [], resolve)}</blockquote>;
    case "list": {
      const list = token as Tokens.List;
      const items = list.items.map((item, index) => <li key={index}>{blocks(item.tokens, resolve)}</li>);
      return list.ordered ? <ol start={Number(list.start) || 1}>{items}</ol> : <ul>{items}</ul>;
    }
    case "table":
      return <MarkdownTable table={token as Tokens.Table} resolve={resolve} />;
    case "hr":
      return <hr class="rule" />;
    case "html":
      return <p>{String(token.text)}</p>;
    default:
      return null;
  }
}

function MarkdownTable(props: { table: Tokens.Table; resolve: Resolve }) {
  const { table, resolve } = props;
  const label = table.header.map((cell) => plain(cell.tokens)).join(", ");
  return (
    <TableFrame label={label}>
      <table>
        <thead>
          <tr>
            {table.header.map((cell, index) =>
              cell.text === "" ? (
                <td key={index} />
              ) : (
                <th key={index} scope="col">
                  {inline(cell.tokens, resolve)}
                </th>
              ),
            )}
          </tr>
        </thead>
        <tbody>
          {table.rows.map((row, index) => (
            <tr key={index}>
              {row.map((cell, column) => (
                <td key={column}>{inline(cell.tokens, resolve)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </TableFrame>
  );
}

function inline(tokens: Token[], resolve: Resolve): ComponentChildren {
  return tokens.map((token, index) => <Inline key={index} token={token} resolve={resolve} />);
}

function Inline(props: { token: Token; resolve: Resolve }): JSX.Element {
  const { resolve } = props;
  const token = props.token as Tokens.Generic;
  const inner = () => (token.tokens ? inline(token.tokens, resolve) : unescape(String(token.text ?? "")));
  switch (token.type) {
    case "strong":
      return <strong>{inner()}</strong>;
    case "em":
      return <em>{inner()}</em>;
    case "del":
      return <del>{inner()}</del>;
    case "codespan":
      return <code>{String(token.text)}</code>;
    case "br":
      return <br />;
    case "link":
      return <Link target={String(token.href)} resolve={resolve} content={inner()} />;
    case "image":
      // An image that is no part of the pages is omitted.
      if (resolve(String(token.href)) === null) return <></>;
      return <Link target={String(token.href)} resolve={resolve} content={String(token.text || token.href)} />;
    case "escape":
    case "text":
    case "html":
      return <>{token.tokens ? inner() : unescape(String(token.text))}</>;
    default:
      return <>{unescape(String(token.raw))}</>;
  }
}

function Link(props: { target: string; resolve: Resolve; content: ComponentChildren }) {
  const address = props.resolve(props.target);
  if (address === null) return <>{props.content}</>;
  if (!/^https?:/.test(address)) return <a href={address}>{props.content}</a>;
  return (
    <a href={address} target="_blank" rel="noopener noreferrer">
      {props.content}
    </a>
  );
}
