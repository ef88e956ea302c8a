// SPDX-License-Identifier: Apache-2.0
// One entity: its partitions, rates, settings and rules.

import { resource, useLive } from "./api";
import { age, bytes, count, rate, time } from "./format";
import { type Column, Table, Waiting } from "./parts";
import { Plots } from "./plots";
import { Link, to } from "./router";
import { RulesSection } from "./rules";
import { SettingsSection } from "./settings";
import type { EntityPage, PartitionCounts } from "./types";

const STATES = ["ready", "locked", "deferred", "scheduled", "dead"] as const;

/** A bar with a piece for each state. The numbers beside it say the same. */
function Bar({ row, most }: { row: PartitionCounts; most: number }) {
  let left = 0;
  const pieces = STATES.map((state) => {
    const width = (row[state] / most) * 100;
    const piece = { state, left, width };
    left += width;
    return piece;
  });
  return (
    <svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
      {pieces
        .filter((piece) => piece.width > 0)
        .map((piece) => (
          <rect key={piece.state} class={piece.state} x={piece.left} y="0" width={piece.width} height="10" />
        ))}
    </svg>
  );
}

function partitionColumns(most: number): Column<PartitionCounts>[] {
  return [
    { title: "Partition", cell: (row) => row.partition },
    { title: "Messages", cell: (row) => <Bar row={row} most={most} /> },
    ...STATES.map((state) => ({
      title: state === "dead" ? "Dead letters" : `${state[0]?.toUpperCase()}${state.slice(1)}`,
      isNumber: true,
      cell: (row: PartitionCounts) => (
        <>
          <span class={`key ${state}`} aria-hidden="true" />
          {count(row[state])}
        </>
      ),
    })),
    { title: "Transfer", isNumber: true, cell: (row) => count(row.transfer) },
    { title: "Disk", isNumber: true, cell: (row) => bytes(row.bytes) },
    {
      title: "Health",
      cell: (row) => (row.reason === null ? "healthy" : <strong class="bad">out of service: {row.reason}</strong>),
    },
  ];
}

export function EntityDetails({ path }: { path: string }) {
  const { data, error } = useLive<EntityPage>(resource("entity", { path }));
  if (data === null) {
    return <Waiting error={error} />;
  }
  const sum = (row: PartitionCounts) => STATES.reduce((all, state) => all + row[state], 0);
  const most = Math.max(1, ...data.partitions.map(sum));
  return (
    <>
      <dl class="figures">
        <div>
          <dt>Kind</dt>
          <dd>
            {data.kind}
            {data.requires_session ? " with sessions" : ""}
            {data.is_partitioned ? "" : ", not partitioned"}
          </dd>
        </div>
        <div>
          <dt>In, out per second</dt>
          <dd>
            {rate(data.rates.in_per_second)}, {rate(data.rates.out_per_second)}
          </dd>
        </div>
        <div>
          <dt>Created</dt>
          <dd>{time(data.created_ms)}</dd>
        </div>
        <div>
          <dt>Changed</dt>
          <dd>{time(data.updated_ms)}</dd>
        </div>
        <div>
          <dt>Used</dt>
          <dd>{data.accessed_ms === null ? "never" : `${age(data.accessed_ms, data.now_ms)} ago`}</dd>
        </div>
      </dl>
      {data.kind !== "topic" && (
        <Table
          caption="Partitions"
          columns={partitionColumns(most)}
          rows={data.partitions}
          rowKey={(row) => row.partition}
          empty="There is none."
        />
      )}
      {data.kind === "topic" && (
        <section>
          <h2>Subscriptions</h2>
          <p>
            A topic keeps no messages: its {count(data.subscriptions_all)} subscriptions do.
            {data.subscriptions_all > data.subscriptions.length && " The overview finds all of them."}
          </p>
          <ul>
            {data.subscriptions.map((name) => (
              <li key={name}>
                <Link href={to("entity", { path: name })}>{name}</Link>
              </li>
            ))}
          </ul>
        </section>
      )}
      {data.kind !== "topic" && <Plots path={path} />}
      {data.kind === "subscription" && <RulesSection path={data.name} rules={data.rules} />}
      <SettingsSection path={data.name} settings={data.settings} />
    </>
  );
}
