// SPDX-License-Identifier: Apache-2.0
// Sending a test message, or an edited dead letter.

import { useState } from "preact/hooks";
import { post } from "./api";
import { fromBase64, parseDuration, toBase64 } from "./format";
import { Dialog, Field, Notice, SelectField, TextField, useAction } from "./parts";
import type { Message, Property } from "./types";

const DEAD_LETTER = ["DeadLetterReason", "DeadLetterErrorDescription"];
const KINDS = ["text", "integer", "double", "boolean"];

interface Props {
  path: string;
  /** The dead letter that is edited. */
  original?: Message;
  onClose: () => void;
  onSent: () => void;
}

/** The text of a body, or null if it is not text: then its bytes are sent as they are. */
function editable(original: Message | undefined): string | null {
  if (original === undefined) {
    return "";
  }
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(fromBase64(original.body));
  } catch {
    return null;
  }
}

export function SendDialog({ path, original, onClose, onSent }: Props) {
  const first = editable(original);
  const [body, setBody] = useState(first ?? "");
  const [fields, setFields] = useState<Record<string, string>>({
    message_id: original?.message_id ?? "",
    session_id: original?.session_id ?? "",
    partition_key: original?.partition_key ?? "",
    subject: original?.subject ?? "",
    correlation_id: original?.correlation_id ?? "",
    content_type: original?.content_type ?? "",
  });
  const [timeToLive, setTimeToLive] = useState("");
  const kept = (original?.properties ?? []).filter((it) => !DEAD_LETTER.includes(it.name) && KINDS.includes(it.kind));
  const lost = (original?.properties ?? []).filter((it) => !DEAD_LETTER.includes(it.name) && !KINDS.includes(it.kind));
  const [properties, setProperties] = useState<Property[]>(kept);
  const action = useAction();
  const field = (name: string, label: string) => (
    <TextField
      key={name}
      label={label}
      value={fields[name] ?? ""}
      onValue={(value) => setFields((before) => ({ ...before, [name]: value }))}
    />
  );
  const submit = async (event: Event) => {
    event.preventDefault();
    const isSent = await action.run(async () => {
      const ttl = timeToLive.trim() === "" ? null : parseDuration(timeToLive);
      if (Number.isNaN(ttl)) {
        throw new Error("The time to live is not a duration; write for example 30 s or 5 min.");
      }
      const bytes = first === null && original !== undefined ? original.body : toBase64(new TextEncoder().encode(body));
      const message = { path, body: bytes, ...fields, time_to_live_ms: ttl, properties };
      const edited = { ...message, number: original?.number, to: original?.to, reply_to: original?.reply_to };
      const { number } = await post<{ number: string }>(
        original === undefined ? "send" : "send-edited",
        original === undefined ? message : edited,
      );
      return `Sent as number ${number}.`;
    });
    if (isSent) {
      onSent();
      if (original !== undefined) {
        onClose();
      }
    }
  };
  const isWhole = original === undefined || !original.is_cut;
  return (
    <Dialog title={original === undefined ? "Send a test message" : "Edit and resubmit"} onClose={onClose}>
      <form onSubmit={submit}>
        {original !== undefined && (
          <p class="quiet">
            The edited message is sent first; then the dead letter {original.number} is removed.
          </p>
        )}
        {first === null ? (
          <p class="quiet">The body is not text; it is sent as it is.</p>
        ) : (
          <Field label="Body">
            {(id) => (
              <textarea id={id} rows={8} value={body} onInput={(event) => setBody(event.currentTarget.value)} />
            )}
          </Field>
        )}
        <div class="fields">
          {field("session_id", "Session id")}
          {field("partition_key", "Partition key")}
          {field("subject", "Subject")}
          {field("content_type", "Content type")}
          {field("message_id", "Message id")}
          {field("correlation_id", "Correlation id")}
          <TextField label="Time to live" value={timeToLive} onValue={setTimeToLive} hint="For example 5 min" />
        </div>
        <PropertyFields properties={properties} onChange={setProperties} />
        {lost.length > 0 && (
          <p class="error">
            These properties have types that this page cannot send, and would be lost:{" "}
            {lost.map((it) => it.name).join(", ")}
          </p>
        )}
        {!isWhole && <p class="error">The body is too large to edit here; resubmit it without changes.</p>}
        <button type="submit" disabled={action.isBusy || !isWhole}>
          {original === undefined ? "Send" : "Send and remove the dead letter"}
        </button>
        <Notice error={action.error} done={action.done} />
      </form>
    </Dialog>
  );
}

function PropertyFields({ properties, onChange }: { properties: Property[]; onChange: (next: Property[]) => void }) {
  const set = (at: number, changes: Partial<Property>) =>
    onChange(properties.map((it, place) => (place === at ? { ...it, ...changes } : it)));
  return (
    <fieldset>
      <legend>Application properties</legend>
      {properties.map((property, at) => (
        <div key={at} class="fields">
          <TextField label={`Name ${at + 1}`} value={property.name} onValue={(name) => set(at, { name })} />
          <SelectField
            label={`Type ${at + 1}`}
            value={property.kind}
            options={KINDS.map((kind) => [kind, kind])}
            onValue={(kind) => set(at, { kind })}
          />
          <TextField label={`Value ${at + 1}`} value={property.value} onValue={(value) => set(at, { value })} />
          <button
            type="button"
            aria-label={`Remove property ${at + 1}`}
            onClick={() => onChange(properties.filter((_, place) => place !== at))}
          >
            Remove
          </button>
        </div>
      ))}
      <button type="button" onClick={() => onChange([...properties, { name: "", kind: "text", value: "" }])}>
        Add a property
      </button>
    </fieldset>
  );
}
