import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";

import { Button } from "../parts/button.tsx";
import { Banner } from "../parts/states.tsx";
import { Icon } from "../parts/icon.tsx";
import { isOperator, online, tryAgain } from "./api.ts";
import { isSuspended } from "./details.ts";
import { openPalette } from "./palette.tsx";
import { account } from "./session.ts";

/** Sets the title of the document. */
export function useTitle(title: string): void {
  const owner = isOperator ? "Operator" : account.value?.name;
  useEffect(() => {
    document.title = [title, owner, "Tollgate"].filter(Boolean).join(" · ");
  }, [title, owner]);
}

let isFirstPage = true;

/** Moves the focus to the heading of a new page, so that screen readers announce it. */
function useFocusedHeading() {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    const element = heading.current;
    // A screen that was opened for one of its fields has moved the focus there.
    const isMoved = element?.closest("main")?.querySelector(".page")?.contains(document.activeElement);
    if (!isFirstPage && !isMoved) element?.focus({ preventScroll: true });
    isFirstPage = false;
  }, []);
  return heading;
}

/** The frame of a screen: the bar with its title, and the content. */
export function Page(props: {
  title: string;
  /** The place above, with its path. */
  parent?: { title: string; href: string };
  note?: ComponentChildren;
  action?: ComponentChildren;
  /** Filters below the bar. */
  filters?: ComponentChildren;
  /** Omits the padding: the content fills the page. */
  isFlush?: boolean;
  children: ComponentChildren;
}) {
  useTitle(props.title);
  const heading = useFocusedHeading();
  return (
    <>
      <header class="bar">
        {props.parent && (
          <span class="row nowrap">
            <a class="crumb" href={props.parent.href}>
              {props.parent.title}
            </a>
            <Icon name="right" small class="muted" />
          </span>
        )}
        <h1 ref={heading} tabIndex={-1}>
          {props.title}
        </h1>
        {props.note}
        <span class="end row g12">
          {props.action}
          <button type="button" class="find" onClick={openPalette}>
            <Icon name="search" />
            Search
            <kbd>{isApple() ? "⌘ K" : "Ctrl K"}</kbd>
          </button>
        </span>
      </header>
      {props.filters && <div class="toolbar">{props.filters}</div>}
      <div class={props.isFlush ? "page flush" : "page"}>
        {!online.value ? (
          <Banner
            kind="failure"
            action={
              <Button size="small" icon="retry" onClick={tryAgain}>
                Try now
              </Button>
            }
          >
            <b>You are offline.</b> The page shows its last state, and tries again every 8 seconds.
          </Banner>
        ) : (
          isSuspended.value && (
            <Banner kind="failure">
              <b>The account is suspended.</b> Calls are refused, and nothing in the account can be changed.
            </Banner>
          )
        )}
        {props.children}
      </div>
    </>
  );
}

function isApple(): boolean {
  return /Mac|iPhone|iPad/.test(navigator.userAgent);
}
