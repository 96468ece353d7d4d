import { useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";

import { Button } from "../../parts/button.tsx";
import { Avatar } from "../../parts/data.tsx";
import { Icon } from "../../parts/icon.tsx";
import { Markdown } from "../../parts/markdown.tsx";
import { plural } from "../../shell/format.ts";
import { session } from "../../shell/session.ts";
import { AnswerColumn } from "./answer.tsx";
import { filesOf, textOf } from "./body.ts";
import { findModel, prefixMark, modelsFor } from "./catalog.ts";
import type { Input } from "./chat-types.ts";
import { announcement, chat, switchTo, type LiveTurn } from "./conversation.ts";
import { FileChip, toInput, useAttachments } from "./files.tsx";
import { ColumnDialog, ParametersPane } from "./parameters.tsx";
import { quoteText, useQuote } from "./quote.ts";
import { hasOwnSettings, MAX_COLUMNS } from "./settings.ts";

export const CHAT_ENDPOINT = "/v1/chat/completions";

/** Messages to one to four models side by side. */
export function ChatMode(props: { mayChange: boolean; isOwn: boolean }) {
  const conversation = chat.value;
  const isRunning = conversation.isRunning;
  const [edited, setEdited] = useState<number | null>(null);
  useEffect(() => {
    if (!isRunning) return undefined;
    const stop = (event: KeyboardEvent) => {
      if (event.key !== "Escape" || event.defaultPrevented || document.querySelector("dialog[open]")) return;
      event.preventDefault();
      conversation.stop();
    };
    window.addEventListener("keydown", stop);
    return () => window.removeEventListener("keydown", stop);
  }, [isRunning, conversation]);
  return (
    <div class="pg">
      <div class="pmain">
        <Thread key={conversation.id} mayChange={props.mayChange} />
        {props.mayChange && <Composer key={`to ${conversation.id}`} isOwn={props.isOwn} onEdit={setEdited} />}
      </div>
      <ParametersPane />
      {edited !== null && <ColumnDialog column={edited} onClose={() => setEdited(null)} />}
      <span class="sr" role="status">
        {announcement.value}
      </span>
    </div>
  );
}

/** Pixels from the end within which the thread follows its growth. */
const FOLLOW_PX = 48;

function Thread(props: { mayChange: boolean }) {
  const turns = chat.value.turns.value;
  const frame = useRef<HTMLDivElement>(null);
  const content = useRef<HTMLDivElement>(null);
  const isAtEnd = useRef(true);
  const last = turns.at(-1)?.key;
  useLayoutEffect(() => {
    const [box, inner] = [frame.current, content.current];
    if (!box || !inner) return undefined;
    const observer = new ResizeObserver(() => {
      if (isAtEnd.current) box.scrollTop = box.scrollHeight;
    });
    observer.observe(inner);
    return () => observer.disconnect();
  }, []);
  useLayoutEffect(() => {
    // A new turn is shown from its beginning.
    isAtEnd.current = true;
  }, [last]);
  return (
    <div
      ref={frame}
      class="thread"
      tabIndex={0}
      role="region"
      aria-label="Conversation"
      onScroll={(event) => {
        const box = event.currentTarget;
        isAtEnd.current = box.scrollHeight - box.scrollTop - box.clientHeight < FOLLOW_PX;
      }}
    >
      <div ref={content}>
        {turns.length === 0 ? (
          <div class="empty start">
            <h2>Ask one model, or compare up to four</h2>
            <p>
              Every model of the row below answers the same message. Answers are ordinary calls: they appear in Calls with
              their exact charge.
            </p>
          </div>
        ) : (
          turns.map((turn, index) => (
            <TurnView key={turn.key} turn={turn} index={index} isLast={index === turns.length - 1} mayChange={props.mayChange} />
          ))
        )}
      </div>
    </div>
  );
}

function TurnView(props: { turn: LiveTurn; index: number; isLast: boolean; mayChange: boolean }) {
  const { turn, index } = props;
  const [isEditing, setEditing] = useState(false);
  const conversation = chat.value;
  // The answers of a turn change their state in place; the list changes with them.
  const turns = conversation.turns.value;
  const name = session.value?.person.name || session.value?.person.email || "You";
  const { content, files, images } = turn.input;
  return (
    <article class="pturn" aria-label={`Turn ${index + 1}`}>
      <h2 class="sr">Turn {index + 1}</h2>
      <div class="turn">
        <Avatar name={name} />
        {isEditing ? (
          <EditMessage
            turn={turn}
            behind={turns.length - index - 1}
            onClose={() => setEditing(false)}
            onSend={(input) => {
              setEditing(false);
              conversation.ask(input, index);
            }}
          />
        ) : (
          <>
            <div class="grow said">
              {filesOf(content).length > 0 && (
                <div class="row wrap atts">
                  {filesOf(content).map((id) => (
                    <FileChip key={id} id={id} name={files?.[id]} isImage={images?.includes(id) ?? false} />
                  ))}
                </div>
              )}
              <Markdown text={textOf(content)} />
            </div>
            {props.mayChange && (
              <span class="row g4 turn-actions">
                <Button kind="bare" size="small" icon="edit" label={`Edit message ${index + 1}`} onClick={() => setEditing(true)} />
                <Button
                  kind="bare"
                  size="small"
                  icon="branch"
                  label={`Branch into a new chat after turn ${index + 1}`}
                  disabled={turn.answers.some((answer) => answer.status === "running")}
                  onClick={() => switchTo(conversation.branch(index))}
                />
              </span>
            )}
          </>
        )}
      </div>
      <div class={`pcols n${turn.answers.length}`}>
        {turn.answers.map((_, column) => (
          <AnswerColumn key={column} turn={turn} column={column} isLast={props.isLast} mayChange={props.mayChange} />
        ))}
      </div>
    </article>
  );
}

function EditMessage(props: { turn: LiveTurn; behind: number; onClose: () => void; onSend: (input: Input) => void }) {
  const { input } = props.turn;
  const [text, setText] = useState(textOf(input.content));
  const files = filesOf(input.content).map((id) => ({ id, name: input.files?.[id] ?? id, isImage: input.images?.includes(id) ?? false }));
  const area = useRef<HTMLTextAreaElement>(null);
  useLayoutEffect(() => area.current?.focus(), []);
  const send = () => {
    if (text.trim() || files.length > 0) props.onSend(toInput(text, files));
  };
  return (
    <form
      class="grow stack"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      <div class="in area">
        <textarea
          ref={area}
          rows={2}
          aria-label="Message"
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) send();
            if (event.key === "Escape") {
              event.preventDefault();
              props.onClose();
            }
          }}
        />
      </div>
      <div class="row wrap">
        <Button size="small" type="submit">
          Send again
        </Button>
        <Button size="small" kind="bare" onClick={props.onClose}>
          Cancel
        </Button>
        <span class="muted t12">
          {props.behind > 0 ? `Replaces this turn and ${plural(props.behind, "turn")} after it.` : "Replaces this turn."}
        </span>
      </div>
    </form>
  );
}

function Columns(props: { onEdit: (column: number) => void }) {
  const conversation = chat.value;
  const { models } = conversation.settings.value;
  const options = modelsFor(CHAT_ENDPOINT);
  const { columns } = conversation.settings.value;
  const change = (next: string[], nextColumns = columns) => {
    conversation.change({ models: next, columns: nextColumns });
    rememberModels(next);
  };
  return (
    <div class="mcols" role="group" aria-label="Models">
      {models.map((model, index) => (
        <span key={index} class="mcol">
          <span class="mk" aria-hidden="true">
            {prefixMark(model)}
          </span>
          <select
            aria-label={`Model ${index + 1}`}
            value={model}
            onChange={(event) => change(models.with(index, event.currentTarget.value))}
          >
            {!options.some((option) => option.id === model) && <option value={model}>{model} (not available)</option>}
            {options.map((option) => (
              <option key={option.id} value={option.id}>
                {option.id}
              </option>
            ))}
          </select>
          <Icon name="updown" small class="muted" />
          <Button
            kind="bare"
            size="small"
            icon="settings"
            class={hasOwnSettings(columns[index]) ? "set" : ""}
            label={`Settings of column ${index + 1}${hasOwnSettings(columns[index]) ? ", changed" : ""}`}
            onClick={() => props.onEdit(index)}
          />
          {models.length > 1 && (
            <Button
              kind="bare"
              size="small"
              icon="close"
              label={`Remove column ${index + 1}, ${model}`}
              onClick={() =>
                change(
                  models.filter((_, at) => at !== index),
                  models.map((_, at) => columns[at] ?? {}).filter((_, at) => at !== index),
                )
              }
            />
          )}
        </span>
      ))}
      {models.length < MAX_COLUMNS && options.length > 0 && (
        <Button
          kind="bare"
          size="small"
          icon="plus"
          onClick={() => {
            const unused = options.find((option) => !models.includes(option.id)) ?? options[0];
            if (unused) change([...models, unused.id]);
          }}
        >
          Add column
        </Button>
      )}
    </div>
  );
}

const MODELS = "tollgate.playground.models";

function rememberModels(models: string[]): void {
  try {
    localStorage.setItem(MODELS, JSON.stringify(models));
  } catch {
    // The choice holds until the page is closed.
  }
}

/** Returns the models of the latest chat that can still be used, else the first model. */
export function defaultModels(): string[] {
  const options = modelsFor(CHAT_ENDPOINT).map((model) => model.id);
  let chosen: unknown = null;
  try {
    chosen = JSON.parse(localStorage.getItem(MODELS) ?? "null");
  } catch {
    // Nothing is stored.
  }
  const known = Array.isArray(chosen) ? chosen.filter((one): one is string => options.includes(one as string)) : [];
  return known.length > 0 ? known.slice(0, MAX_COLUMNS) : options.slice(0, 1);
}

function Composer(props: { isOwn: boolean; onEdit: (column: number) => void }) {
  const conversation = chat.value;
  const settings = conversation.settings.value;
  const isRunning = conversation.isRunning;
  const [text, setText] = useState("");
  const files = useAttachments();
  const picker = useRef<HTMLInputElement>(null);
  const area = useRef<HTMLTextAreaElement>(null);
  const id = useId();
  useLayoutEffect(() => {
    if (matchMedia("(pointer: fine)").matches) area.current?.focus();
  }, []);
  const kinds = new Set(settings.models.flatMap((model) => findModel(model)?.modalities.input ?? []));
  const accepted = [...(kinds.has("image") ? ["image/png", "image/jpeg", "image/gif", "image/webp"] : []), ...(kinds.has("file") ? ["application/pdf", "text/*"] : [])];
  const ready = files.list.flatMap((one) => (one.id ? [{ id: one.id, name: one.file.name, isImage: one.file.type.startsWith("image/") }] : []));
  const hasMessage = text.trim() !== "" || ready.length > 0;
  const isAvailable = settings.models.length > 0 && settings.models.every((model) => findModel(model));
  const input = toInput(text, ready);
  const isCostValid = settings.maxCost === "" || /^\d+(\.\d{1,9})?$/.test(settings.maxCost.trim());
  const maySend = hasMessage && files.isReady && isAvailable && isCostValid && !isRunning;
  const key = hasMessage && isAvailable && isCostValid ? JSON.stringify([input, settings, conversation.turns.value.length, isRunning]) : null;
  const quote = useQuote(isRunning ? null : key, () =>
    Promise.all(
      settings.models.map(async (_, column) => ({
        endpoint: CHAT_ENDPOINT,
        request: await conversation.bodyFor(column, input),
        ...(settings.maxCost ? { maxCost: settings.maxCost.trim() } : {}),
      })),
    ),
  );
  const send = () => {
    if (!maySend) return;
    const target = props.isOwn ? conversation : conversation.branch();
    if (target !== conversation) switchTo(target);
    target.ask(input);
    setText("");
    files.clear();
  };
  const take = (list: Iterable<File> | undefined) => {
    const taken = [...(list ?? [])].filter((file) => accepted.some((type) => (type.endsWith("/*") ? file.type.startsWith(type.slice(0, -1)) : file.type === type)));
    if (taken.length > 0) files.add(taken);
    return taken.length > 0;
  };
  const many = settings.models.length > 1;
  return (
    <form
      class="compose"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
      onDragOver={(event) => accepted.length > 0 && event.preventDefault()}
      onDrop={(event) => {
        event.preventDefault();
        take(event.dataTransfer?.files);
      }}
    >
      <Columns onEdit={props.onEdit} />
      {files.list.length > 0 && (
        <div class="row wrap atts">
          {files.list.map((one) => (
            <span key={one.key} class="att">
              <Icon name={one.file.type.startsWith("image/") ? "image" : "files"} />
              <span class="trunc">{one.file.name}</span>
              {one.error ? (
                <span class="bad">{one.error}</span>
              ) : (
                one.id === null && <span class="muted num">{Math.floor(one.share * 100)} %</span>
              )}
              <button type="button" class="inside" aria-label={`Remove ${one.file.name}`} onClick={() => files.remove(one.key)}>
                <Icon name="close" small />
              </button>
            </span>
          ))}
        </div>
      )}
      <textarea
        ref={area}
        id={id}
        rows={2}
        aria-label={many ? `Message to ${settings.models.length} models` : "Message"}
        placeholder={many ? `Message to ${settings.models.length} models` : "Message"}
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
        onPaste={(event) => {
          if (take(event.clipboardData?.files)) event.preventDefault();
        }}
        onKeyDown={(event) => {
          if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
          event.preventDefault();
          send();
        }}
      />
      <div class="row">
        {accepted.length > 0 && (
          <>
            <input
              ref={picker}
              type="file"
              hidden
              multiple
              accept={accepted.join(",")}
              onChange={(event) => {
                files.add(event.currentTarget.files ?? []);
                event.currentTarget.value = "";
              }}
            />
            <Button kind="bare" size="small" icon="attach" label="Attach files" onClick={() => picker.current?.click()} />
          </>
        )}
        <span class={`end t12 num trunc ${quote.error || !quote.isSufficient ? "warn" : "muted"}`} role="status" title={quote.error ?? quote.most ?? undefined}>
          {quoteText(quote, 4)}
        </span>
        {isRunning ? (
          <Button kind="danger" icon="stop" onClick={() => conversation.stop()}>
            Stop <kbd>Esc</kbd>
          </Button>
        ) : (
          <Button kind="primary" type="submit" disabled={!maySend}>
            {props.isOwn ? "Send" : "Send in a copy"} <kbd class="onp">Ctrl ⏎</kbd>
          </Button>
        )}
      </div>
    </form>
  );
}
