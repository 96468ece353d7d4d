import { signal } from "@preact/signals";
import { useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";

import { Icon, type IconName } from "../parts/icon.tsx";

export interface Command {
  group: "Actions" | "Go to" | "Accounts";
  label: string;
  icon: IconName;
  run: () => void;
}

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

/** The command palette: actions, places and accounts, found by their names. */
export function Palette(props: { commands: () => Command[] }) {
  return isOpen.value ? <OpenPalette commands={props.commands()} /> : null;
}

function matches(command: Command, query: string): boolean {
  const text = `${command.label} ${command.group}`.toLowerCase();
  return query
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
}

function OpenPalette(props: { commands: Command[] }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [query, setQuery] = useState("");
  const [selected, setSelected] = useState(0);
  const id = useId();
  const found = props.commands.filter((command) => matches(command, query));

  useLayoutEffect(() => {
    const opener = document.activeElement;
    dialog.current?.showModal();
    return () => {
      if (opener instanceof HTMLElement && opener.isConnected) opener.focus();
    };
  }, []);
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
          aria-label="Search actions and places"
          aria-expanded="true"
          aria-controls={`${id}-list`}
          aria-activedescendant={found.length > 0 ? `${id}-${selected}` : undefined}
          aria-autocomplete="list"
          autocomplete="off"
          spellcheck={false}
          placeholder="Search actions and places"
          value={query}
          onInput={(event) => {
            setQuery(event.currentTarget.value);
            setSelected(0);
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
        {found.map((command, index) => (
          <>
            {command.group !== found[index - 1]?.group && (
              <li key={command.group} class="group" role="presentation">
                {command.group}
              </li>
            )}
            <li
              key={command.group + command.label}
              id={`${id}-${index}`}
              role="option"
              aria-selected={index === selected}
              onPointerMove={() => setSelected(index)}
              onClick={() => run(command)}
            >
              <Icon name={command.icon} />
              <span class="trunc">{command.label}</span>
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
