import type { ComponentChildren } from "preact";
import { useId, useLayoutEffect, useRef, useState } from "preact/hooks";

import { Icon, type IconName } from "./icon.tsx";

export interface MenuItem {
  label: string;
  icon?: IconName;
  isDanger?: boolean;
  /** State of an item that can be chosen. */
  isChecked?: boolean;
  /** Draws a line above the item. */
  isFirstOfGroup?: boolean;
  onSelect: () => void;
}

interface MenuProps {
  /** Content of the button that opens the menu. */
  children: ComponentChildren;
  class: string;
  /** Name of the menu. */
  label: string;
  /** Whether the button has no text, and so needs the name as well. */
  isIcon?: boolean;
  items: MenuItem[];
  head?: ComponentChildren;
}

const GAP = 4;

/** A button that opens a menu. Arrow keys, Home, End and first letters move; Esc closes. */
export function Menu(props: MenuProps) {
  const button = useRef<HTMLButtonElement>(null);
  const popup = useRef<HTMLDivElement>(null);
  const [isOpen, setOpen] = useState(false);
  const id = useId();

  useLayoutEffect(() => {
    const menu = popup.current;
    const anchor = button.current;
    if (!isOpen || !menu || !anchor) return undefined;
    menu.showPopover();
    placeMenu(menu, anchor.getBoundingClientRect());
    items(menu)[0]?.focus();
    const close = () => setOpen(false);
    const follow = () => placeMenu(menu, anchor.getBoundingClientRect());
    const closeOutside = (event: PointerEvent) => {
      const target = event.target as Node;
      if (!menu.contains(target) && !anchor.contains(target)) setOpen(false);
    };
    document.addEventListener("pointerdown", closeOutside, true);
    window.addEventListener("resize", close);
    document.addEventListener("scroll", follow, true);
    return () => {
      document.removeEventListener("pointerdown", closeOutside, true);
      window.removeEventListener("resize", close);
      document.removeEventListener("scroll", follow, true);
    };
  }, [isOpen]);

  function close(): void {
    setOpen(false);
    button.current?.focus();
  }

  return (
    <>
      <button
        ref={button}
        type="button"
        class={props.class}
        aria-haspopup="menu"
        aria-expanded={isOpen}
        aria-controls={isOpen ? id : undefined}
        aria-label={props.isIcon ? props.label : undefined}
        title={props.isIcon ? props.label : undefined}
        onClick={() => setOpen(!isOpen)}
        onKeyDown={(event) => {
          if (event.key === "ArrowDown" || event.key === "ArrowUp") {
            event.preventDefault();
            setOpen(true);
          }
        }}
      >
        {props.children}
      </button>
      {isOpen && (
        <div
          ref={popup}
          id={id}
          popover="manual"
          class="pop menu"
          role="menu"
          aria-label={props.label}
          onKeyDown={(event) => {
            if (event.key === "Escape" || event.key === "Tab") {
              event.stopPropagation();
              if (event.key === "Escape") event.preventDefault();
              close();
            } else {
              moveFocus(event, items(event.currentTarget));
            }
          }}
        >
          {props.head && (
            <div class="head" role="presentation">
              {props.head}
            </div>
          )}
          {props.items.map((item) => (
            <>
              {item.isFirstOfGroup && <hr />}
              <button
                key={item.label}
                type="button"
                tabIndex={-1}
                role={item.isChecked === undefined ? "menuitem" : "menuitemradio"}
                aria-checked={item.isChecked}
                class={item.isDanger ? "danger" : undefined}
                onClick={() => {
                  close();
                  item.onSelect();
                }}
              >
                {item.icon && <Icon name={item.icon} />}
                <span class="trunc">{item.label}</span>
                {item.isChecked && <Icon name="check" class="tick-end" />}
              </button>
            </>
          ))}
        </div>
      )}
    </>
  );
}

function items(menu: HTMLElement): HTMLElement[] {
  return [...menu.querySelectorAll<HTMLElement>('[role^="menuitem"]')];
}

/** Places a popup below its button, or above where it fits better. */
export function placeMenu(menu: HTMLElement, anchor: DOMRect): void {
  const { offsetWidth: width, offsetHeight: height } = menu;
  const fitsRight = anchor.left + width + GAP <= window.innerWidth;
  const left = fitsRight ? anchor.left : Math.max(GAP, anchor.right - width);
  const fitsBelow = anchor.bottom + GAP + height <= window.innerHeight;
  const top = fitsBelow ? anchor.bottom + GAP : Math.max(GAP, anchor.top - GAP - height);
  menu.style.left = `${left}px`;
  menu.style.top = `${top}px`;
}

function moveFocus(event: KeyboardEvent, all: HTMLElement[]): void {
  const current = all.indexOf(document.activeElement as HTMLElement);
  let next: HTMLElement | undefined;
  if (event.key === "ArrowDown") next = all[(current + 1) % all.length];
  else if (event.key === "ArrowUp") next = all[(current - 1 + all.length) % all.length];
  else if (event.key === "Home") next = all[0];
  else if (event.key === "End") next = all[all.length - 1];
  else if (event.key.length === 1) {
    const later = [...all.slice(current + 1), ...all.slice(0, current + 1)];
    next = later.find((item) => item.textContent?.trim().toLowerCase().startsWith(event.key.toLowerCase()));
  }
  if (!next) return;
  event.preventDefault();
  next.focus();
}
