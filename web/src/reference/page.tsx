import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";

import { Icon } from "../parts/icon.tsx";
import { openPalette } from "../shell/palette.tsx";
import { href, place } from "../shell/router.ts";

let isFirstPage = true;

/** Scrolls to the part that the address names, else to the top. */
export function useScroll(frame: { current: HTMLElement | null }): void {
  const { path } = place.value;
  useLayoutEffect(() => {
    const id = decodeURIComponent(location.hash.slice(1));
    const target = id ? document.getElementById(id) : null;
    if (target) target.scrollIntoView();
    else if (frame.current) frame.current.scrollTop = 0;
  }, [path]);
}

/** The frame of a page: the bar with its place, its title, and the content. */
export function DocsPage(props: {
  title: string;
  heading?: ComponentChildren;
  /** The place above, with its path. */
  parent?: { title: string; path: string };
  action?: ComponentChildren;
  children: ComponentChildren;
}) {
  const frame = useRef<HTMLDivElement>(null);
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    document.title = `${props.title} · Tollgate API`;
  }, [props.title]);
  useEffect(() => {
    if (!isFirstPage) heading.current?.focus({ preventScroll: true });
    isFirstPage = false;
  }, []);
  useScroll(frame);
  return (
    <>
      <div class="bar">
        <nav class="row nowrap grow" aria-label="Place">
          <a class="muted" href={href("/").replace(/\/$/, "")}>
            Docs
          </a>
          {props.parent && (
            <>
              <Icon name="right" small class="muted" />
              <a class="muted" href={href(props.parent.path)}>
                {props.parent.title}
              </a>
            </>
          )}
          <Icon name="right" small class="muted" />
          <span class="trunc" aria-current="page">
            {props.title}
          </span>
        </nav>
        <span class="row g12">
          {props.action}
          <button type="button" class="find wideonly" onClick={openPalette}>
            <Icon name="search" />
            Search
            <kbd>/</kbd>
          </button>
        </span>
      </div>
      <div class="page docs" ref={frame}>
        <h1 ref={heading} tabIndex={-1} class="ref-title">
          {props.heading ?? props.title}
        </h1>
        {props.children}
      </div>
    </>
  );
}
