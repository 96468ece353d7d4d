import { useState } from "preact/hooks";

import { Button } from "../../parts/button.tsx";
import { Code } from "../../parts/code.tsx";
import { Segments } from "../../parts/data.tsx";
import { Dialog } from "../../parts/dialog.tsx";
import type { Token } from "../../parts/highlight.ts";
import { Tokens } from "../../parts/markdown.tsx";
import { LANGUAGES, writeCode, type CodeRequest, type Language } from "./code.ts";

/** Longer strings, such as images, are shortened on the screen. Copies have them whole. */
const SHOWN_LENGTH = 6000;

function shorten(token: Token): Token {
  const text = typeof token === "string" ? token : token[1];
  if (text.length <= SHOWN_LENGTH) return token;
  const shown = text.replaceAll(/[A-Za-z0-9+/=]{2000,}/g, (long) => `${long.slice(0, 60)}… (${long.length} characters)`);
  return typeof token === "string" ? shown : [token[0], shown];
}

/** Shows requests as code that makes them. */
export function CodeDialog(props: { requests: CodeRequest[]; isSent: boolean; onClose: () => void }) {
  const [language, setLanguage] = useState<Language>("curl");
  const [shown, setShown] = useState(0);
  const request = props.requests[shown] ?? props.requests[0];
  if (!request) return null;
  const tokens = writeCode(request, language);
  const text = tokens.map((token) => (typeof token === "string" ? token : token[1])).join("");
  return (
    <Dialog title="Code" size="large" onClose={props.onClose} footer={<Button onClick={props.onClose}>Close</Button>}>
      <p class="muted t14">
        {props.isSent ? "The latest request, exactly as it was sent." : "The request as it would be sent."} The key comes
        from the environment variable <code>TOLLGATE_API_KEY</code>.
      </p>
      {props.requests.length > 1 && (
        <Segments
          label="Request"
          value={String(shown)}
          options={props.requests.map((one, index) => ({ value: String(index), label: one.label }))}
          onChange={(value) => setShown(Number(value))}
        />
      )}
      <Code
        language="Request"
        text={text}
        header={<Segments label="Language" isFlat value={language} options={LANGUAGES} onChange={setLanguage} />}
      >
        <Tokens tokens={tokens.map(shorten)} />
      </Code>
    </Dialog>
  );
}
