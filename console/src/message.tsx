// SPDX-License-Identifier: Apache-2.0
// One message: its properties explained, and its body.

import { useState } from "preact/hooks";
import { resource, useOnce } from "./api";
import { Body } from "./body";
import { count, duration, time } from "./format";
import { Dialog, Waiting } from "./parts";
import { useRights } from "./rights";
import { SendDialog } from "./send";
import type { Message } from "./types";

type Explained = [name: string, value: string | number | null, meaning: string];

function system(it: Message): Explained[] {
  return [
    ["Sequence number", it.number, "Given by the broker; unique in the entity. The partition is in its upper bits."],
    ["Partition", it.partition, "Where the message is kept. Its key chose it, or the sender's turn."],
    ["State", it.state, "ready waits for a receiver; locked has one; deferred is fetched by number only; scheduled waits for its time."],
    ["Enqueued", time(it.enqueued_ms), "When the broker accepted it."],
    ["Expires", it.expires_ms === null ? "never" : time(it.expires_ms), "After that it is removed or dead-lettered."],
    ["Delivery count", it.delivery_count, "How often a receiver got it. At max_delivery_count it is dead-lettered."],
    ["Message id", it.message_id, "Chosen by the sender, or made for it. Duplicates are found by it."],
    ["Session id", it.session_id, "Messages of a session go to one receiver at a time, in order."],
    ["Partition key", it.partition_key, "Messages with the same key are in the same partition."],
    ["Subject", it.subject, "Chosen by the sender; sys.Label in filters."],
    ["Correlation id", it.correlation_id, "Chosen by the sender, to relate messages."],
    ["Content type", it.content_type, "What the sender says the body is."],
    ["To", it.to, "Chosen by the sender; the broker does not use it."],
    ["Reply to", it.reply_to, "Where the sender wants the answer."],
    ["Reply to session", it.reply_to_session_id, "The session of the answer."],
    ["Time to live", it.time_to_live_ms === null ? null : duration(it.time_to_live_ms), "From enqueued to expired."],
    ["Scheduled for", time(it.scheduled_ms) || null, "Not received before."],
    ["First number", it.enqueued_number, "Its number in the topic, or in the first queue of a chain of forwards."],
    ["Dead-letter source", it.dead_letter_source, "The entity whose dead letter it was before it was forwarded."],
    ["Dead-letter reason", it.reason, "Why it is a dead letter."],
    ["Dead-letter description", it.description, "More about the reason, often the exception."],
    ["Size", `${count(it.bytes)} bytes`, "With properties; the body alone is in the list."],
    ["Body", it.body_kind, "data are bytes; others have an AMQP type."],
  ];
}

interface Props {
  path: string;
  number: string;
  onClose: () => void;
  onChanged: () => void;
}

export function MessageDialog({ path, number, onClose, onChanged }: Props) {
  const { data, error } = useOnce<Message>(resource("message", { path, number }));
  const { manage } = useRights();
  const [isEditing, setEditing] = useState(false);
  if (isEditing && data !== null) {
    const sent = () => {
      onChanged();
      onClose();
    };
    return <SendDialog path={path} original={data} onClose={() => setEditing(false)} onSent={sent} />;
  }
  return (
    <Dialog title={`Message ${number}`} onClose={onClose}>
      {data === null ? (
        <Waiting error={error} />
      ) : (
        <>
          {manage && path.toLowerCase().endsWith("/$deadletterqueue") && (
            <p>
              <button type="button" onClick={() => setEditing(true)}>
                Edit and resubmit
              </button>
            </p>
          )}
          <Body base64={data.body} isCut={data.is_cut} />
          <Properties message={data} />
          <div class="scroll" tabIndex={0} role="region" aria-label="System properties">
            <table>
              <caption>System properties</caption>
              <tbody>
                {system(data)
                  .filter(([, value]) => value !== null && value !== "")
                  .map(([name, value, meaning]) => (
                    <tr key={name}>
                      <th scope="row">{name}</th>
                      <td class="value">{value}</td>
                      <td class="quiet">{meaning}</td>
                    </tr>
                  ))}
              </tbody>
            </table>
          </div>
        </>
      )}
    </Dialog>
  );
}

function Properties({ message }: { message: Message }) {
  if (message.properties.length === 0) {
    return <p class="quiet">There are no application properties.</p>;
  }
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Application properties">
      <table>
        <caption>Application properties</caption>
        <tbody>
          {message.properties.map((property, at) => (
            <tr key={at}>
              <th scope="row">{property.name}</th>
              <td class="value">{property.value}</td>
              <td class="quiet">{property.kind}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
