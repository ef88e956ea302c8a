// SPDX-License-Identifier: Apache-2.0
// All entities, and the sums of the namespace.

import { resource, useLive } from "./api";
import { age, bytes, count, rate } from "./format";
import { type Column, Pager, Search, Table, Waiting, change } from "./parts";
import { Plots } from "./plots";
import { Link, to } from "./router";
import type { EntityRow, Overview } from "./types";

function columns(now: number): Column<EntityRow>[] {
  return [
    { title: "Entity", sort: "name", cell: (row) => <Link href={to("entity", { path: row.name })}>{row.name}</Link> },
    { title: "Kind", sort: "kind", cell: (row) => row.kind },
    {
      title: "State",
      sort: "status",
      cell: (row) => (row.is_available ? row.status : <strong class="bad">{row.status}, limited</strong>),
    },
    {
      title: "Depth",
      sort: "active",
      isNumber: true,
      cell: (row) => <Link href={to("messages", { path: row.name })}>{count(row.active)}</Link>,
    },
    { title: "Oldest", sort: "oldest", isNumber: true, cell: (row) => age(row.oldest_ms, now) },
    { title: "In /s", sort: "in", isNumber: true, cell: (row) => rate(row.in_per_second) },
    { title: "Out /s", sort: "out", isNumber: true, cell: (row) => rate(row.out_per_second) },
    {
      title: "Dead letters",
      sort: "dead",
      isNumber: true,
      cell: (row) =>
        row.dead === 0 ? "0" : <Link href={to("dead-letters", { path: row.name })}>{count(row.dead)}</Link>,
    },
    { title: "Locked", sort: "locked", isNumber: true, cell: (row) => count(row.locked) },
    { title: "Scheduled", sort: "scheduled", isNumber: true, cell: (row) => count(row.scheduled) },
    { title: "Size", sort: "bytes", isNumber: true, cell: (row) => bytes(row.bytes) },
  ];
}

export function OverviewPage({ query }: { query: URLSearchParams }) {
  const search = query.get("search") ?? "";
  const sort = query.get("sort") ?? "";
  const page = Number(query.get("page") ?? 1);
  const { data, error } = useLive<Overview>(resource("overview", { search, sort, page }));
  return (
    <>
      <div class="filters">
        <Search label="Search" value={search} onValue={(value) => change(query, { search: value, page: null })} />
      </div>
      {data === null ? (
        <Waiting error={error} />
      ) : (
        <>
          <Table
            caption="Entities"
            columns={columns(data.now_ms)}
            rows={data.page.rows}
            rowKey={(row) => row.name}
            empty={search === "" ? "There are no entities yet." : "No entity has such a name."}
            sort={sort === "" ? "name" : sort}
            onSort={(next) => change(query, { sort: next, page: null })}
          />
          <Pager {...data.page} onPage={(next) => change(query, { page: next })} />
          <Totals totals={data.totals} />
        </>
      )}
      <Plots path="" />
    </>
  );
}

function Totals({ totals }: { totals: Overview["totals"] }) {
  return (
    <section aria-label="Namespace">
      <h2>Namespace</h2>
      <dl class="figures">
        <div>
          <dt>Entities</dt>
          <dd>{count(totals.entities)}</dd>
        </div>
        <div>
          <dt>Messages</dt>
          <dd>{count(totals.active)}</dd>
        </div>
        <div>
          <dt>Dead letters</dt>
          <dd>{count(totals.dead)}</dd>
        </div>
        <div>
          <dt>Size</dt>
          <dd>{bytes(totals.bytes)}</dd>
        </div>
        <div>
          <dt>In, out per second</dt>
          <dd>
            {rate(totals.rates.in_per_second)}, {rate(totals.rates.out_per_second)}
          </dd>
        </div>
        <div>
          <dt>Partitions</dt>
          <dd>
            {totals.partitions}
            {totals.partitions_out > 0 && <strong class="bad"> ({totals.partitions_out} out of service)</strong>}
          </dd>
        </div>
        <div>
          <dt>Kept</dt>
          <dd>{totals.is_durable ? "in a directory" : "in memory"}</dd>
        </div>
      </dl>
    </section>
  );
}
