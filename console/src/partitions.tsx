// SPDX-License-Identifier: Apache-2.0
// The partitions of the namespace.

import { post, useLive } from "./api";
import { bytes, duration } from "./format";
import { Notice, Table, Waiting, useAction } from "./parts";
import { useRights } from "./rights";
import type { Partitions } from "./types";

export function PartitionsPage() {
  const { data, error } = useLive<Partitions>("partitions");
  const { manage } = useRights();
  const action = useAction();
  if (data === null) {
    return <Waiting error={error} />;
  }
  const heal = (partition: number) =>
    action.run(async () => {
      await post("heal", { partition });
      return `Partition ${partition} is in service again.`;
    });
  return (
    <>
      {!data.is_durable && <p class="quiet">The namespace is in memory, so there are no files.</p>}
      <Notice error={action.error} done={action.done} />
      <Table
        caption="Partitions"
        rows={data.partitions}
        rowKey={(row) => row.partition}
        empty="There is none."
        columns={[
          { title: "Partition", cell: (row) => row.partition },
          {
            title: "Health",
            cell: (row) =>
              row.fault === null ? (
                row.is_full ? <strong class="bad">disk full</strong> : "healthy"
              ) : (
                <strong class="bad">
                  {row.fault}: {row.reason}
                </strong>
              ),
          },
          { title: "Journal", isNumber: true, cell: (row) => bytes(row.journal_bytes) },
          { title: "Snapshot", isNumber: true, cell: (row) => bytes(row.snapshot_bytes) },
          {
            title: "Snapshot age",
            isNumber: true,
            cell: (row) => row.snapshot_age_ms !== null && duration(row.snapshot_age_ms),
          },
          {
            title: "Do",
            cell: (row) =>
              manage &&
              row.can_heal && (
                <button type="button" disabled={action.isBusy} onClick={() => heal(row.partition)}>
                  Heal partition {row.partition} now
                </button>
              ),
          },
        ]}
      />
    </>
  );
}
