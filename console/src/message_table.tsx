// SPDX-License-Identifier: Apache-2.0
// Messages in their short form.

import { count, time } from "./format";
import { type Column, Table } from "./parts";
import { Link, to } from "./router";
import type { Brief } from "./types";

interface Props {
  caption: string;
  path: string;
  messages: Brief[];
  isDead?: boolean;
  more?: Column<Brief>[];
}

export function MessageTable({ caption, path, messages, isDead = false, more = [] }: Props) {
  const columns: Column<Brief>[] = [
    {
      title: "Number",
      cell: (row) => (
        <span class="once">
          <Link href={to("messages", { path, number: row.number })}>{row.number}</Link>
        </span>
      ),
    },
    { title: "Partition", isNumber: true, cell: (row) => row.partition ?? "" },
    { title: "State", cell: (row) => row.state },
    { title: "Enqueued", cell: (row) => <span class="once">{time(row.enqueued_ms)}</span> },
    { title: "Deliveries", isNumber: true, cell: (row) => row.delivery_count },
    { title: "Session", cell: (row) => row.session_id },
    { title: "Subject", cell: (row) => row.subject },
    ...(isDead
      ? [
          { title: "Reason", cell: (row: Brief) => row.reason },
          { title: "Description", cell: (row: Brief) => <span class="cut">{row.description}</span> },
        ]
      : []),
    { title: "Body", cell: (row) => <code class="cut">{row.preview}</code> },
    { title: "Bytes", isNumber: true, cell: (row) => count(row.body_bytes) },
    ...more,
  ];
  return (
    <Table caption={caption} columns={columns} rows={messages} rowKey={(row) => row.number} empty="There is no message." />
  );
}
