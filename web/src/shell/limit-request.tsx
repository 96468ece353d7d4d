import { Code, CopyButton } from "../parts/code.tsx";
import { account, service } from "./session.ts";

/** Tells how to request a higher limit: the account id, the contact and a message to complete. */
export function LimitRequest(props: {
  /** The wanted limit, such as `… keys (now 50)`; one line for each limit. */
  wanted: string[];
}) {
  const { support } = service.value;
  const id = account.value?.id ?? "";
  const message = [
    `Account: ${id}`,
    ...props.wanted.map((limit) => `Limit wanted: ${limit}`),
    "Reason: …",
    "Peak requests per minute: …",
    "Size of a request: … input tokens, … output tokens",
    "",
  ].join("\n");
  return (
    <>
      <dl class="kv">
        <dt>Account id</dt>
        <dd class="row g4">
          <code class="breakable">{id}</code>
          <CopyButton text={id} label="Copy the account id" />
        </dd>
        <dt>Contact</dt>
        <dd>{support ? <Contact address={support} /> : "The operator of this gateway"}</dd>
      </dl>
      <Code language="Message" text={message} />
    </>
  );
}

/** An address of the support: a link for web and e-mail addresses. */
export function Contact(props: { address: string }) {
  const { address } = props;
  if (/^https?:\/\//.test(address)) {
    return (
      <a href={address} target="_blank" rel="noopener noreferrer">
        {address}
      </a>
    );
  }
  return /^[^\s@]+@[^\s@]+$/.test(address) ? <a href={`mailto:${address}`}>{address}</a> : address;
}
