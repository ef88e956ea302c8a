// SPDX-License-Identifier: Apache-2.0
// Browsing messages. Nothing is locked by looking.

import { useState } from "preact/hooks";
import { resource, useOnce } from "./api";
import { count } from "./format";
import { Notice, Search, SelectField, TextField, Waiting, change } from "./parts";
import { MessageDialog } from "./message";
import { MessageTable } from "./message_table";
import { useRights } from "./rights";
import { SendDialog } from "./send";
import type { Messages } from "./types";

const DEAD = "/$deadletterqueue";

function toMs(text: string | null): number | null {
  const ms = text === null || text === "" ? Number.NaN : Date.parse(`${text}Z`);
  return Number.isNaN(ms) ? null : ms;
}

export function MessagesPage({ path, query }: { path: string; query: URLSearchParams }) {
  const isDead = path.toLowerCase().endsWith(DEAD) || query.get("queue") === "dead";
  const full = isDead && !path.toLowerCase().endsWith(DEAD) ? `${path}${DEAD}` : path;
  const own = path.toLowerCase().endsWith(DEAD) ? path.slice(0, -DEAD.length) : path;
  const { send } = useRights();
  const [isSending, setSending] = useState(false);
  const of = (name: string) => query.get(name) ?? "";
  const { data, error, reload } = useOnce<Messages>(
    resource("messages", {
      path: full,
      partition: of("partition"),
      session: of("session"),
      property: of("property"),
      text: of("text"),
      from_ms: toMs(query.get("after")),
      to_ms: toMs(query.get("before")),
      from: of("from"),
    }),
  );
  const filter = (changes: Record<string, string | null>) => change(query, { from: null, ...changes });
  return (
    <>
      <form class="filters" onSubmit={(event) => event.preventDefault()}>
        <SelectField
          label="Queue"
          value={isDead ? "dead" : ""}
          options={[
            ["", "messages"],
            ["dead", "dead letters"],
          ]}
          onValue={(queue) => change(query, { path: own, queue, from: null })}
        />
        <Search label="Partition" value={of("partition")} onValue={(partition) => filter({ partition })} />
        <Search label="Session" value={of("session")} onValue={(session) => filter({ session })} />
        <Search label="Property (NAME or NAME=VALUE)" value={of("property")} onValue={(property) => filter({ property })} />
        <Search label="Text of the body" value={of("text")} onValue={(text) => filter({ text })} />
        <TextField
          label="Enqueued from (UTC)"
          kind="datetime-local"
          value={of("after")}
          onValue={(after) => filter({ after })}
        />
        <TextField
          label="Enqueued before (UTC)"
          kind="datetime-local"
          value={of("before")}
          onValue={(before) => filter({ before })}
        />
      </form>
      <p>
        <button type="button" onClick={reload}>
          Look again
        </button>
        {send && !isDead && (
          <button type="button" onClick={() => setSending(true)}>
            Send a test message
          </button>
        )}
      </p>
      {error !== null && <Notice error={error} />}
      {data === null ? (
        error === null && <Waiting error={null} />
      ) : (
        <>
          <MessageTable
            caption={isDead ? "Dead letters" : "Messages"}
            path={full}
            messages={data.messages}
            isDead={isDead}
          />
          <p role="status">
            {count(data.messages.length)} found; {count(data.looked_at)} looked at. Nothing was locked.
          </p>
          <nav class="pager" aria-label="Pages of the list">
            <button type="button" disabled={of("from") === ""} onClick={() => change(query, { from: null })}>
              From the start
            </button>
            <button type="button" disabled={data.next === null} onClick={() => change(query, { from: data.next })}>
              Go on
            </button>
          </nav>
        </>
      )}
      {query.get("number") !== null && (
        <MessageDialog
          path={full}
          number={of("number")}
          onClose={() => change(query, { number: null })}
          onChanged={reload}
        />
      )}
      {isSending && <SendDialog path={own} onClose={() => setSending(false)} onSent={reload} />}
    </>
  );
}
