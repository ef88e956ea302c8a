// SPDX-License-Identifier: Apache-2.0
// The open connections with their links, and what was refused in the last hour.

import { useRef } from "preact/hooks";
import { useLive } from "./api";
import { age, count, duration, rate } from "./format";
import { Table, Waiting } from "./parts";
import type { Connection, Connections } from "./types";

/** Messages per second of each connection, from what changed since the last event. */
function useRates(data: Connections | null): Map<number, [number, number]> {
  const before = useRef<Connections | null>(null);
  const rates = useRef(new Map<number, [number, number]>());
  if (data !== null && before.current !== data) {
    const old = before.current;
    const seconds = old === null ? 0 : (data.now_ms - old.now_ms) / 1_000;
    const next = new Map<number, [number, number]>();
    for (const it of data.connections) {
      const known = old?.connections.find((other) => other.number === it.number);
      if (known !== undefined && seconds > 0) {
        next.set(it.number, [(it.messages_in - known.messages_in) / seconds, (it.messages_out - known.messages_out) / seconds]);
      }
    }
    rates.current = next;
    before.current = data;
  }
  return rates.current;
}

export function ConnectionsPage() {
  const { data, error } = useLive<Connections>("connections");
  const rates = useRates(data);
  if (data === null) {
    return <Waiting error={error} />;
  }
  const shown = (it: Connection) => {
    const [into, out] = rates.get(it.number) ?? [0, 0];
    return `${rate(into)}, ${rate(out)}`;
  };
  return (
    <>
      <Table
        caption={`AMQP connections (${count(data.total)})`}
        rows={data.connections}
        rowKey={(row) => row.number}
        empty="No AMQP client is connected."
        columns={[
          { title: "Peer", cell: (row) => row.peer ?? `connection ${row.number}` },
          { title: "SDK", cell: (row) => <span class="cut">{row.sdk === "" ? "(says nothing)" : row.sdk}</span> },
          { title: "TLS", cell: (row) => (row.is_encrypted ? "yes" : "no") },
          { title: "Key", cell: (row) => row.key_name },
          { title: "Open for", isNumber: true, cell: (row) => age(row.opened_ms, data.now_ms) },
          { title: "Links", isNumber: true, cell: (row) => count(row.links.length) },
          { title: "In, out", isNumber: true, cell: (row) => `${count(row.messages_in)}, ${count(row.messages_out)}` },
          { title: "In, out /s", isNumber: true, cell: shown },
          { title: "Container", cell: (row) => <span class="cut">{row.container}</span> },
        ]}
      />
      {data.connections.map((connection) => (
        <details key={connection.number}>
          <summary>
            {count(connection.links.length)} links of {connection.peer ?? `connection ${connection.number}`}
          </summary>
          <Table
            caption={`Links of ${connection.peer ?? connection.number}`}
            rows={connection.links}
            rowKey={(row) => row.name}
            empty="It has no link."
            columns={[
              { title: "Link", cell: (row) => <span class="cut">{row.name}</span> },
              { title: "Does", cell: (row) => row.role },
              { title: "Entity", cell: (row) => row.entity },
              { title: "Session", cell: (row) => row.session },
              { title: "Mode", cell: (row) => row.mode },
              { title: "Credit", isNumber: true, cell: (row) => count(row.credit) },
              { title: "Unsettled", isNumber: true, cell: (row) => count(row.unsettled) },
              { title: "Messages", isNumber: true, cell: (row) => count(row.messages) },
              { title: "Quiet for", isNumber: true, cell: (row) => duration(row.idle_ms) },
            ]}
          />
        </details>
      ))}
      <Table
        caption="Refusals of the last hour"
        rows={data.refusals}
        rowKey={(row) => `${row.what} ${row.reason} ${row.detail}`}
        empty="Nothing was refused."
        columns={[
          { title: "What", cell: (row) => row.what },
          { title: "Reason", cell: (row) => row.reason },
          { title: "Detail", cell: (row) => row.detail },
          { title: "Count", isNumber: true, cell: (row) => count(row.count) },
          { title: "First", isNumber: true, cell: (row) => `${age(row.first_ms, data.now_ms)} ago` },
          { title: "Last", isNumber: true, cell: (row) => `${age(row.last_ms, data.now_ms)} ago` },
        ]}
      />
    </>
  );
}
