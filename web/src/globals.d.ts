interface Window {
  /** Request for the session, started before the modules were loaded. Used once. */
  earlySession?: Promise<Response> | undefined;
}
