import { signal } from "@preact/signals";
import { useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";

import { Icon, type IconName } from "../parts/icon.tsx";

export interface Command {
  group: string;
  label: string;
  icon: IconName;
  /** Text beside the label. */
  note?: string;
  /** More words that find the command. */
  keywords?: string;
  run: () => void;
}

/** Maximum number of results that are shown. */
const MAX_RESULTS = 60;

/** Number of results that are drawn at first. They fill the list; the others follow after a pause. */
const FIRST_RESULTS = 14;

const PAUSE_MS = 120;

const isOpen = signal(false);

export function openPalette(): void {
  isOpen.value = true;
}

document.addEventListener("keydown", (event) => {
  const isShortcut = event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey) && !event.altKey;
  if (!isShortcut || document.querySelector("dialog[open]:not(.cmdk)")) return;
  event.preventDefault();
  isOpen.value = !isOpen.value;
});

/** The command palette: actions, places and accounts, found by their names. `label` names its field. */
export function Palette(props: { commands: () => Command[]; label?: string }) {
  if (!isOpen.value) return null;
  return <OpenPalette commands={props.commands()} label={props.label ?? "Search actions and places"} />;
}

/** Returns the rank of a command among those that match: 0 by its label, 1 by other words; else null. */
function rank(command: Command, words: string[]): number | null {
  const label = command.label.toLowerCase();
  if (words.every((word) => label.includes(word))) return 0;
  const text = `${label} ${command.group} ${command.note ?? ""} ${command.keywords ?? ""}`.toLowerCase();
  return words.every((word) => text.includes(word)) ? 1 : null;
}

/** Returns the commands that match, with the best ones first in each group. */
function search(commands: Command[], query: string): Command[] {
  const words = query.toLowerCase().split(/\s+/);
  const ranked = commands.map((command) => ({ command, rank: rank(command, words) })).filter((one) => one.rank !== null);
  const groups = [...new Set(ranked.map((one) => one.command.group))];
  return groups
    .flatMap((group) => {
      const own = ranked.filter((one) => one.command.group === group);
      return own.sort((a, b) => (a.rank ?? 0) - (b.rank ?? 0)).map((one) => one.command);
    })
    .slice(0, MAX_RESULTS);
}

function OpenPalette(props: { commands: Command[]; label: string }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [query, setQuery] = useState("");
  const [selected, setSelected] = useState(0);
  const [isComplete, setComplete] = useState(false);
  const id = useId();
  const found = search(props.commands, query);
  const shown = isComplete || selected >= FIRST_RESULTS ? found : found.slice(0, FIRST_RESULTS);

  useLayoutEffect(() => {
    const opener = document.activeElement;
    const element = dialog.current;
    element?.showModal();
    return () => {
      // The page behind an open dialog cannot take the focus.
      element?.close();
      if (opener instanceof HTMLElement && opener.isConnected) opener.focus();
    };
  }, []);
  useEffect(() => {
    if (isComplete) return undefined;
    const timer = setTimeout(() => setComplete(true), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [query, isComplete]);
  useEffect(() => {
    document.getElementById(`${id}-${selected}`)?.scrollIntoView({ block: "nearest" });
  }, [selected]);

  const close = () => {
    isOpen.value = false;
  };
  const run = (command: Command | undefined) => {
    if (!command) return;
    close();
    // The focus has returned to the opener before the command moves it.
    setTimeout(command.run);
  };

  return (
    <dialog
      ref={dialog}
      class="pop cmdk"
      aria-label="Search"
      onCancel={(event) => {
        event.preventDefault();
        close();
      }}
      onMouseDown={(event) => event.target === dialog.current && close()}
    >
      <div class="line">
        <Icon name="search" />
        <input
          role="combobox"
          aria-label={props.label}
          aria-expanded="true"
          aria-controls={`${id}-list`}
          aria-activedescendant={found.length > 0 ? `${id}-${selected}` : undefined}
          aria-autocomplete="list"
          autocomplete="off"
          spellcheck={false}
          placeholder={props.label}
          value={query}
          onInput={(event) => {
            setQuery(event.currentTarget.value);
            setSelected(0);
            setComplete(false);
          }}
          onKeyDown={(event) => {
            const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
            if (step !== 0 && found.length > 0) {
              event.preventDefault();
              setSelected((selected + step + found.length) % found.length);
            } else if (event.key === "Enter") {
              event.preventDefault();
              run(found[selected]);
            }
          }}
        />
        <kbd>Esc</kbd>
      </div>
      <ul id={`${id}-list`} role="listbox" aria-label="Results">
        {shown.map((command, index) => (
          <>
            {command.group !== shown[index - 1]?.group && (
              <li key={command.group} class="group" role="presentation">
                {command.group}
              </li>
            )}
            <li
              key={command.group + command.label + (command.note ?? "")}
              id={`${id}-${index}`}
              role="option"
              aria-selected={index === selected}
              onPointerMove={() => setSelected(index)}
              onClick={() => run(command)}
            >
              <Icon name={command.icon} />
              <span class="trunc">{command.label}</span>
              {command.note && <span class="muted t12 trunc end">{command.note}</span>}
            </li>
          </>
        ))}
      </ul>
      {found.length === 0 && (
        <p class="empty muted" role="status">
          Nothing matches “{query}”.
        </p>
      )}
    </dialog>
  );
}
