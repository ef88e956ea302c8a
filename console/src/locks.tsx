// SPDX-License-Identifier: Apache-2.0
// Who holds what: links of connections, locked messages, Spark's reservations, and staged sends.

import { resource, useLive } from "./api";
import { age, bytes, count, duration, time } from "./format";
import { MessageTable } from "./message_table";
import { Table, Waiting } from "./parts";
import { Link, to } from "./router";
import type { Brief, Locks } from "./types";

export function LocksPage({ path }: { path: string }) {
  const { data, error } = useLive<Locks>(resource("locks", { path }));
  if (data === null) {
    return <Waiting error={error} />;
  }
  const entity = (name: string | null) => name !== null && <Link href={to("locks", { path: name })}>{name}</Link>;
  const holders = new Map(data.locked?.messages.map((row) => [row.number, row.holder]));
  return (
    <>
      <Table
        caption="Receivers of connections"
        rows={data.holders}
        rowKey={(row) => `${row.connection} ${row.link}`}
        empty="No connection receives."
        columns={[
          { title: "Link", cell: (row) => <span class="cut">{row.link}</span> },
          { title: "Entity", cell: (row) => entity(row.entity) },
          { title: "Peer", cell: (row) => <Link href={to("connections")}>{row.peer ?? row.connection}</Link> },
          { title: "SDK", cell: (row) => <span class="cut">{row.sdk}</span> },
          { title: "Key", cell: (row) => row.key_name },
          { title: "Session", cell: (row) => row.session },
          { title: "Mode", cell: (row) => row.mode },
          { title: "Credit", isNumber: true, cell: (row) => count(row.credit) },
          { title: "Holds", isNumber: true, cell: (row) => count(row.unsettled) },
          { title: "Quiet for", isNumber: true, cell: (row) => duration(row.idle_ms) },
        ]}
      />
      {data.locked !== null && (
        <>
          <MessageTable
            caption="Locked messages"
            path={path}
            messages={data.locked.messages}
            more={[
              {
                title: "Holder",
                cell: (row: Brief) => {
                  const holder = holders.get(row.number);
                  return holder ? (
                    <Link href={to("connections")}>{holder.peer ?? holder.connection}</Link>
                  ) : (
                    <span class="quiet">HTTP, Spark, this process, or a link that is gone</span>
                  );
                },
              },
            ]}
          />
          <p class="quiet">{count(data.locked.looked_at)} messages looked at.</p>
        </>
      )}
      <Table
        caption="Spark consumers"
        rows={data.reservations}
        rowKey={(row) => `${row.entity} ${row.consumer} ${row.reservation}`}
        empty="No consumer has a reservation."
        columns={[
          { title: "Consumer", cell: (row) => row.consumer },
          { title: "Entity", cell: (row) => entity(row.entity) },
          { title: "Batch (reservation)", isNumber: true, cell: (row) => count(row.reservation) },
          { title: "Completed up to", isNumber: true, cell: (row) => count(row.done) },
          { title: "Epoch", isNumber: true, cell: (row) => count(row.epoch) },
          { title: "Messages", isNumber: true, cell: (row) => count(row.messages) },
          {
            title: "Standing",
            cell: (row) =>
              row.is_live && row.expires_ms !== null ? `live, ${duration(row.expires_ms - data.now_ms)} left` : "expired",
          },
        ]}
      />
      <Table
        caption="Staged sends"
        rows={data.stages}
        rowKey={(row) => row.id}
        empty="Nothing is staged."
        columns={[
          { title: "Stage", cell: (row) => <span class="cut">{row.id}</span> },
          { title: "Entity", cell: (row) => row.entity },
          { title: "State", cell: (row) => `${row.state}${row.of === null ? "" : `: ${row.of}`}` },
          { title: "Age", isNumber: true, cell: (row) => age(row.created_ms, data.now_ms) },
          { title: "Removed", cell: (row) => time(row.expires_ms) },
          { title: "Rows", isNumber: true, cell: (row) => count(row.rows) },
          { title: "Size", isNumber: true, cell: (row) => bytes(row.bytes) },
        ]}
      />
    </>
  );
}
