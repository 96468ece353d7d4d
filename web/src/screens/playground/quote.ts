import { useEffect, useState } from "preact/hooks";

import { PUBLIC_API, request, toApiError } from "../../shell/api.ts";
import { add, amountUp } from "../../shell/format.ts";

export interface QuoteItem {
  /** Step of a composition. */
  step?: string;
  class: string;
  quantity: number;
  price: string;
  cost: string;
}

interface Quote {
  most: string;
  items: QuoteItem[];
  input_tokens: number;
  sufficient: boolean;
}

export interface QuoteState {
  /** Maximum cost of all requests; null if it is unknown. */
  most: string | null;
  items: QuoteItem[];
  inputTokens: number;
  isSufficient: boolean;
  error: string | null;
}

interface QuotedRequest {
  endpoint: string;
  request: Record<string, unknown>;
  maxCost?: string;
}

const NOTHING: QuoteState = { most: null, items: [], inputTokens: 0, isSufficient: true, error: null };

const DEBOUNCE_MS = 500;

/** Returns the error of a quote, or its amount and whether the balance covers it. */
export function quoteText(quote: QuoteState, decimals: number): string | null {
  if (quote.error !== null || quote.most === null) return quote.error;
  return `at most ${amountUp(quote.most, decimals)}${quote.isSufficient ? "" : ", more than the balance"}`;
}

/** Quotes requests after a pause. A null key quotes nothing. */
export function useQuote(
  key: string | null,
  requests: () => QuotedRequest[] | Promise<QuotedRequest[]>,
): QuoteState {
  const [state, setState] = useState<QuoteState>(NOTHING);
  useEffect(() => {
    if (key === null) {
      setState(NOTHING);
      return undefined;
    }
    const abort = new AbortController();
    const timer = setTimeout(() => {
      const quote = async () => {
        const asked = (await requests()).map(({ maxCost, ...body }) =>
          request<Quote>("POST", `${PUBLIC_API}/quote`, {
            body,
            account: true,
            signal: abort.signal,
            headers: maxCost ? { "x-max-cost": maxCost } : {},
          }),
        );
        return Promise.all(asked);
      };
      quote().then(
        (found) => {
          if (abort.signal.aborted) return;
          setState({
            most: found.map((one) => one.most).reduce(add, "0"),
            items: found.flatMap((one) => one.items),
            inputTokens: found[0]?.input_tokens ?? 0,
            isSufficient: found.every((one) => one.sufficient),
            error: null,
          });
        },
        (error: unknown) => {
          if (!abort.signal.aborted) setState({ ...NOTHING, error: toApiError(error).message });
        },
      );
    }, DEBOUNCE_MS);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [key]);
  return state;
}
