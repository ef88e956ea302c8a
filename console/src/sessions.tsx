// SPDX-License-Identifier: Apache-2.0
// The sessions of an entity.

import { resource, useLive } from "./api";
import { age, count, duration, time } from "./format";
import { type Column, Pager, Search, SelectField, Table, Waiting, change } from "./parts";
import { Link, to } from "./router";
import type { SessionRow, Sessions } from "./types";

function columns(path: string, now: number): Column<SessionRow>[] {
  return [
    { title: "Session", sort: "id", cell: (row) => <Link href={to("messages", { path, session: row.id })}>{row.id}</Link> },
    { title: "Partition", sort: "partition", isNumber: true, cell: (row) => row.partition ?? "" },
    { title: "Depth", sort: "messages", isNumber: true, cell: (row) => count(row.messages) },
    { title: "Oldest", sort: "oldest", isNumber: true, cell: (row) => age(row.oldest_ms, now) },
    {
      title: "Holder",
      sort: "holder",
      cell: (row) =>
        row.holder === null ? (
          <span class="quiet">nobody</span>
        ) : (
          <>
            {row.holder}
            {row.holder_connection !== null && (
              <>
                {" "}
                from <Link href={to("connections")}>{row.holder_connection.peer ?? row.holder_connection.connection}</Link>
              </>
            )}
          </>
        ),
    },
    {
      title: "Lock ends",
      sort: "until",
      isNumber: true,
      cell: (row) => row.until_ms !== null && `in ${duration(row.until_ms - now)}`,
    },
    { title: "State set", cell: (row) => time(row.state_set_ms) },
  ];
}

export function SessionsPage({ path, query }: { path: string; query: URLSearchParams }) {
  const of = (name: string) => query.get(name) ?? "";
  const page = Number(query.get("page") ?? 1);
  const { data, error } = useLive<Sessions>(
    resource("sessions", { path, search: of("search"), sort: of("sort"), state: of("state"), page }),
  );
  return (
    <>
      <div class="filters">
        <Search label="Search" value={of("search")} onValue={(search) => change(query, { search, page: null })} />
        <SelectField
          label="Sessions"
          value={of("state")}
          options={[
            ["", "all"],
            ["held", "held"],
            ["free", "free"],
          ]}
          onValue={(state) => change(query, { state, page: null })}
        />
      </div>
      {data === null ? (
        <Waiting error={error} />
      ) : (
        <>
          <Table
            caption={`Sessions (${count(data.total)})`}
            columns={columns(data.name, data.now_ms)}
            rows={data.page.rows}
            rowKey={(row) => row.id}
            empty="There is no such session."
            sort={of("sort") === "" ? "id" : of("sort")}
            onSort={(sort) => change(query, { sort, page: null })}
          />
          <Pager {...data.page} onPage={(next) => change(query, { page: next })} />
        </>
      )}
    </>
  );
}
