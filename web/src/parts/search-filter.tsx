import { useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";

import { Icon } from "./icon.tsx";
import { placeMenu } from "./menu.tsx";

export interface FilterOption {
  value: string;
  label: string;
  note?: string;
}

interface SearchFilterProps {
  /** Name of the filter, such as `Model`. */
  label: string;
  value: string | null;
  /** Name of the chosen value, where no option names it. */
  shown?: string;
  /** Null while the options load. */
  options: FilterOption[] | null;
  /** Called when the list opens. */
  onOpen?: () => void;
  onChange: (value: string | null) => void;
}

/** A chip that filters a list by one of many values, which can be searched. */
export function SearchFilter(props: SearchFilterProps) {
  const button = useRef<HTMLButtonElement>(null);
  const [isOpen, setOpen] = useState(false);
  const { value } = props;
  const label = props.options?.find((option) => option.value === value)?.label ?? props.shown ?? value;
  const close = () => {
    setOpen(false);
    button.current?.focus();
  };
  return (
    <span class={value === null ? "search-filter dash" : "search-filter on"}>
      <button
        ref={button}
        type="button"
        aria-haspopup="dialog"
        aria-expanded={isOpen}
        onClick={() => {
          setOpen(!isOpen);
          props.onOpen?.();
        }}
      >
        {value === null && <Icon name="plus" small />}
        {props.label}
        {value !== null && <b class="trunc">{label}</b>}
      </button>
      {value !== null && (
        <button type="button" class="clear" aria-label={`Remove the filter ${props.label}`} onClick={() => props.onChange(null)}>
          <Icon name="close" small />
        </button>
      )}
      {isOpen && button.current && (
        <OptionList
          {...props}
          anchor={button.current}
          onClose={close}
          onLeave={() => setOpen(false)}
          onChange={(next) => {
            close();
            props.onChange(next);
          }}
        />
      )}
    </span>
  );
}

function OptionList(props: SearchFilterProps & { anchor: HTMLElement; onClose: () => void; onLeave: () => void }) {
  const popup = useRef<HTMLDivElement>(null);
  const [query, setQuery] = useState("");
  const [selected, setSelected] = useState(0);
  const id = useId();
  const words = query.toLowerCase().split(/\s+/);
  const found = (props.options ?? []).filter((option) => {
    const text = `${option.label} ${option.note ?? ""} ${option.value}`.toLowerCase();
    return words.every((word) => text.includes(word));
  });
  useLayoutEffect(() => {
    const element = popup.current;
    if (!element) return undefined;
    element.showPopover();
    const follow = () => placeMenu(element, props.anchor.getBoundingClientRect());
    follow();
    element.querySelector("input")?.focus();
    const closeOutside = (event: PointerEvent) => {
      const target = event.target as Node;
      if (!element.contains(target) && !props.anchor.contains(target)) props.onLeave();
    };
    document.addEventListener("pointerdown", closeOutside, true);
    document.addEventListener("scroll", follow, true);
    window.addEventListener("resize", follow);
    return () => {
      document.removeEventListener("pointerdown", closeOutside, true);
      document.removeEventListener("scroll", follow, true);
      window.removeEventListener("resize", follow);
    };
  }, []);
  useLayoutEffect(() => {
    if (popup.current) placeMenu(popup.current, props.anchor.getBoundingClientRect());
  }, [props.options]);
  useEffect(() => {
    document.getElementById(`${id}-${selected}`)?.scrollIntoView({ block: "nearest" });
  }, [selected]);
  const onKeyDown = (event: KeyboardEvent) => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    const option = found[selected];
    if (step !== 0 && found.length > 0) setSelected((selected + step + found.length) % found.length);
    else if (event.key === "Enter" && option) props.onChange(option.value);
    else if (event.key === "Escape" || event.key === "Tab") props.onClose();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div ref={popup} popover="manual" class="pop menu finder" role="dialog" aria-label={`Filter by ${props.label.toLowerCase()}`}>
      <input
        role="combobox"
        aria-label={props.label}
        aria-expanded="true"
        aria-controls={`${id}-list`}
        aria-activedescendant={found.length > 0 ? `${id}-${selected}` : undefined}
        aria-autocomplete="list"
        autocomplete="off"
        spellcheck={false}
        placeholder="Search"
        value={query}
        onInput={(event) => {
          setQuery(event.currentTarget.value);
          setSelected(0);
        }}
        onKeyDown={onKeyDown}
      />
      <ul id={`${id}-list`} role="listbox" aria-label={props.label}>
        {found.map((option, index) => (
          <li
            key={option.value}
            id={`${id}-${index}`}
            role="option"
            aria-selected={index === selected}
            onPointerMove={() => setSelected(index)}
            onClick={() => props.onChange(option.value)}
          >
            <span class="trunc">{option.label}</span>
            {option.note && <span class="muted t12 end">{option.note}</span>}
            {option.value === props.value && <Icon name="check" class="tick-end" />}
          </li>
        ))}
      </ul>
      {found.length === 0 && (
        <p class="muted t12" role="status">
          {props.options ? "Nothing matches." : "Loading …"}
        </p>
      )}
    </div>
  );
}
