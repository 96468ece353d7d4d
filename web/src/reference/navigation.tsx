import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";

import { Icon, Mark } from "../parts/icon.tsx";
import { isOperator } from "../shell/api.ts";
import { openPalette } from "../shell/palette.tsx";
import { href, place } from "../shell/router.ts";
import { isSignedIn } from "../shell/session.ts";
import { Drawer, ThemeMenu } from "../shell/side.tsx";
import { guideGroups } from "./families.ts";
import { guideTitle, type Guide } from "./guides.tsx";
import { shortPath, type Api, type Operation } from "./openapi.ts";
import { hasConsole, Verb } from "./try.tsx";

interface NavigationProps {
  api: Api;
  guides: Guide[];
}

/** The navigation: families of operations, and guides. On phones it is a drawer. */
export function Side(props: NavigationProps) {
  const { api } = props;
  const { path } = place.value;
  const operation = path.startsWith("/operations/") ? api.operations.get(path.slice("/operations/".length)) : undefined;
  const guide = path.startsWith("/guides/") ? path.slice("/guides/".length) : null;
  return (
    <aside class="side docs-side" aria-label="Documentation">
      <a class="brand" href={href("/").replace(/\/$/, "")}>
        <Mark />
        <span class="word">Tollgate</span>
        <span class={isOperator ? "chip warn end" : "chip end"}>{isOperator ? "Admin API" : "API"}</span>
      </a>
      <button type="button" class="find" onClick={openPalette}>
        <Icon name="search" />
        Search
        <kbd>/</kbd>
      </button>
      <nav class="nav" aria-label="Main">
        <Item path="/" label="Introduction" />
        <Item path="/errors" label="Errors" isParent />
        <Item path="/headers" label="Response headers" />
        <p>Operations</p>
        {api.families.map((family) => {
          const isCurrent = path === `/families/${family.slug}` || operation?.family === family.name;
          return (
            <Group key={family.slug} label={family.name} path={`/families/${family.slug}`} isCurrent={isCurrent}>
              {family.operations.map((one) => (
                <OperationItem key={one.id} operation={one} isCurrent={one === operation} />
              ))}
            </Group>
          );
        })}
        <p>Guides</p>
        <Item path="/guides" label="All guides" />
        {guideGroups(isOperator).map((group) => {
          const names = group.guides.filter((name) => props.guides.some((one) => one.name === name));
          return (
            <Group key={group.name} label={group.name} isCurrent={guide !== null && names.includes(guide)}>
              {names.map((name) => (
                <li key={name}>
                  <Item path={`/guides/${name}`} label={guideTitle(props.guides, name)} />
                </li>
              ))}
            </Group>
          );
        })}
      </nav>
      <div class="me">
        {hasConsole() && (
          <a class="who" href="/console">
            <Icon name="overview" class="muted" />
            {isSignedIn.value ? "Console" : "Sign in"}
          </a>
        )}
        <span class="end" />
        <ThemeMenu />
      </div>
    </aside>
  );
}

function Item(props: { path: string; label: string; isParent?: boolean }) {
  const { path } = place.value;
  const isCurrent = path === props.path || (props.isParent && path.startsWith(`${props.path}/`));
  return (
    <a href={href(props.path).replace(/\/$/, "")} aria-current={isCurrent ? "page" : undefined}>
      <span class="trunc">{props.label}</span>
    </a>
  );
}

function OperationItem(props: { operation: Operation; isCurrent: boolean }) {
  const { operation } = props;
  const path = shortPath(operation.path);
  return (
    <li>
      <a
        href={href(`/operations/${operation.id}`)}
        title={`${operation.verb.toUpperCase()} ${operation.path}`}
        aria-current={props.isCurrent ? "page" : undefined}
        data-current={props.isCurrent ? "" : undefined}
      >
        <code class="trunc">{path}</code>
        <Verb verb={operation.verb} />
      </a>
    </li>
  );
}

/** A part of the navigation that unfolds. It opens when one of its pages is shown. */
function Group(props: { label: string; path?: string; isCurrent: boolean; children: ComponentChildren }) {
  const [isOpen, setOpen] = useState(props.isCurrent);
  useEffect(() => {
    if (props.isCurrent) setOpen(true);
  }, [props.isCurrent]);
  const isPage = props.path !== undefined && place.value.path === props.path;
  return (
    <div class="nav-group">
      <span class="nav-row">
        {props.path ? (
          <>
            <button
              type="button"
              class="fold"
              aria-expanded={isOpen}
              aria-label={`Operations of ${props.label}`}
              onClick={() => setOpen(!isOpen)}
            >
              <Icon name="right" small />
            </button>
            <a href={href(props.path)} aria-current={isPage ? "page" : undefined} onClick={() => setOpen(true)}>
              {props.label}
            </a>
          </>
        ) : (
          <button type="button" class="fold label" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
            <Icon name="right" small />
            {props.label}
          </button>
        )}
      </span>
      {isOpen && <ul>{props.children}</ul>}
    </div>
  );
}

/** The bar above the page on phones. */
export function TopBar(props: NavigationProps) {
  const [isOpen, setOpen] = useState(false);
  const { path } = place.value;
  useEffect(() => setOpen(false), [path]);
  return (
    <header class="top">
      <span class="row grow">
        <Mark />
        <b>Tollgate</b>
        <span class={isOperator ? "chip warn" : "chip"}>{isOperator ? "Admin API" : "API"}</span>
      </span>
      <span class="row g4">
        <button type="button" class="btn sq bare" aria-label="Search" onClick={openPalette}>
          <Icon name="search" />
        </button>
        <button type="button" class="btn sq bare" aria-label="Menu" aria-expanded={isOpen} onClick={() => setOpen(true)}>
          <Icon name="menu" />
        </button>
      </span>
      {isOpen && (
        <Drawer onClose={() => setOpen(false)}>
          <Side {...props} />
        </Drawer>
      )}
    </header>
  );
}
