/** Responses by account and address. */
type EarlyResponses = Map<string, Promise<Response>>;

interface Window {
  /** Responses to requests that were sent before the modules were loaded. Each is used once. */
  early?: EarlyResponses;
}
