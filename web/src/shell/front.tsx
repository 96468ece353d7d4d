import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

import { focusFirst } from "../parts/dialog.tsx";
import { Mark } from "../parts/icon.tsx";
import { DOCUMENTATION, isOperator } from "./api.ts";
import { useTitle } from "./page.tsx";
import { service } from "./session.ts";

const RECEIPT = [
  ["Input", "180 × 3.00", "0.0005400"],
  ["Cached input", "1,024 × 0.30", "0.0003072"],
  ["Output", "310 × 15.00", "0.0046500"],
] as const;

/** The frame of the pages before the console: sign-in and welcome. */
export function Front(props: { title: string; note: ComponentChildren; children: ComponentChildren }) {
  useTitle(props.title);
  const page = useRef<HTMLElement>(null);
  useLayoutEffect(() => focusFirst(page.current), []);
  const { version, support } = service.value;
  return (
    <main ref={page} class={isOperator ? "signin operator" : "signin"}>
      <div class="sform">
        <div class="brand">
          <Mark />
          <span class="word">Tollgate</span>
          {isOperator && <span class="chip warn">Operator</span>}
        </div>
        <div class="stack g24">
          <div class="stack g4">
            <h1>{props.title}</h1>
            <p class="muted t14">{props.note}</p>
          </div>
          {props.children}
        </div>
        <p class="muted t12 sfoot">
          <span>Tollgate {version}</span>
          <a href={DOCUMENTATION}>API reference</a>
          {support && <span class="breakable">Help: {support}</span>}
        </p>
      </div>
      <div class="sart" aria-hidden="true">
        <div class="gate" />
        <div class="slip">
          <div class="row between t12 muted">
            <span class="mono">req_01JD5Q8Z3V7K</span>
            <span class="num">09:41:02</span>
          </div>
          <p class="strong t14">acme/large</p>
          <div class="receipt">
            {RECEIPT.map(([name, factors, charge]) => (
              <div key={name}>
                <span>{name}</span>
                <span class="q">{factors}</span>
                <i />
                <span>{charge}</span>
              </div>
            ))}
            <div class="sum">
              <span>Charge</span>
              <i />
              <span>0.0054972</span>
            </div>
          </div>
          <p class="t12 muted">Every charge can be computed again from its lines.</p>
        </div>
      </div>
    </main>
  );
}
