// SPDX-License-Identifier: Apache-2.0
// Dead letters by reason and exception; resubmitting and purging them.

import { useState } from "preact/hooks";
import { post, resource, useLive } from "./api";
import { age, count } from "./format";
import { Dialog, Notice, Table, TextField, Waiting, useAction } from "./parts";
import { MessageTable } from "./message_table";
import { useRights } from "./rights";
import { Link, to } from "./router";
import type { DeadLetters, Job } from "./types";

type Group = DeadLetters["groups"][number];
/** All dead letters, or those of one reason. */
type Chosen = { reason: string | null; count: number };

export function DeadLettersPage({ path }: { path: string }) {
  const { data, error } = useLive<DeadLetters>(resource("dead-letters", { path }));
  const { manage } = useRights();
  const [resubmitted, setResubmitted] = useState<Chosen | null>(null);
  const [purged, setPurged] = useState<Chosen | null>(null);
  const [sampled, setSampled] = useState<string | null>(null);
  if (data === null) {
    return <Waiting error={error} />;
  }
  const key = (group: Group) => `${group.reason}\n${group.exception}`;
  const sample = data.groups.find((group) => key(group) === sampled);
  const all: Chosen = { reason: null, count: data.total };
  return (
    <>
      <p role="status" aria-live="polite">
        {count(data.total)} dead letters.
        {!data.is_complete && ` Only the first ${count(data.looked_at)} are grouped.`}{" "}
        <Link href={to("messages", { path, queue: "dead" })}>Browse them</Link>
      </p>
      {manage && data.total > 0 && (
        <p>
          <button type="button" onClick={() => setResubmitted(all)}>
            Resubmit all
          </button>
          <button type="button" class="danger" onClick={() => setPurged(all)}>
            Purge all
          </button>
        </p>
      )}
      <Jobs jobs={data.jobs} />
      <Table
        caption="By reason and exception"
        rows={data.groups}
        rowKey={key}
        empty="There are no dead letters."
        columns={[
          { title: "Reason", cell: (group) => (group.reason === "" ? "(none)" : group.reason) },
          { title: "Exception", cell: (group) => <span class="cut">{group.exception}</span> },
          { title: "Count", isNumber: true, cell: (group) => count(group.count) },
          { title: "Oldest", isNumber: true, cell: (group) => age(group.oldest_ms, data.now_ms) },
          { title: "Newest", isNumber: true, cell: (group) => age(group.newest_ms, data.now_ms) },
          {
            title: "Do",
            cell: (group) => (
              <>
                <button type="button" aria-label={`Sample of ${group.reason}`} onClick={() => setSampled(key(group))}>
                  Sample
                </button>
                {manage && (
                  <>
                    <button
                      type="button"
                      aria-label={`Resubmit reason ${group.reason}`}
                      onClick={() => setResubmitted(group)}
                    >
                      Resubmit reason
                    </button>
                    <button
                      type="button"
                      class="danger"
                      aria-label={`Purge reason ${group.reason}`}
                      onClick={() => setPurged(group)}
                    >
                      Purge reason
                    </button>
                  </>
                )}
              </>
            ),
          },
        ]}
      />
      {sample !== undefined && (
        <MessageTable
          caption={`Sample of ${sample.reason}`}
          path={`${data.name}/$deadletterqueue`}
          messages={sample.samples}
          isDead
        />
      )}
      {resubmitted !== null && (
        <ResubmitDialog path={data.name} chosen={resubmitted} onClose={() => setResubmitted(null)} />
      )}
      {purged !== null && <PurgeDialog path={data.name} chosen={purged} onClose={() => setPurged(null)} />}
    </>
  );
}

function Jobs({ jobs }: { jobs: Job[] }) {
  const action = useAction();
  const { manage } = useRights();
  if (jobs.length === 0) {
    return null;
  }
  const cancel = (id: number) =>
    action.run(async () => {
      await post("job-cancel", { id });
      return "It ends after the messages that are on their way.";
    });
  return (
    <section aria-label="Progress">
      <h2>Progress</h2>
      <ul class="jobs">
        {jobs.map((job) => (
          <li key={job.id}>
            <label for={`job-${job.id}`}>
              Resubmit by {job.key_name}: {count(job.done)} of {count(job.total)}, at most {count(job.per_second)} per second
            </label>
            <progress id={`job-${job.id}`} max={Math.max(1, job.total)} value={job.is_running ? job.done : Math.max(1, job.total)} />
            {job.is_running ? (
              manage && (
                <button type="button" onClick={() => cancel(job.id)} aria-label={`Cancel job ${job.id}`}>
                  Cancel
                </button>
              )
            ) : (
              <span>{job.end === null ? "finished" : `ended: ${job.end}`}</span>
            )}
          </li>
        ))}
      </ul>
      <Notice error={action.error} done={action.done} />
    </section>
  );
}

interface ChosenProps {
  path: string;
  chosen: Chosen;
  onClose: () => void;
}

function named(chosen: Chosen): string {
  return chosen.reason === null ? "All dead letters" : `All dead letters with the reason “${chosen.reason}”`;
}

function ResubmitDialog({ path, chosen, onClose }: ChosenProps) {
  const [perSecond, setPerSecond] = useState("100");
  const [filter, setFilter] = useState("");
  const action = useAction();
  const submit = async (event: Event) => {
    event.preventDefault();
    const isBegun = await action.run(async () => {
      await post("resubmit", { path, reason: chosen.reason, filter, per_second: Number(perSecond) });
      return "It has begun.";
    });
    if (isBegun) {
      onClose();
    }
  };
  return (
    <Dialog title="Resubmit" onClose={onClose}>
      <form onSubmit={submit}>
        <p>{named(chosen)} are sent to {path} again as new messages. Other dead letters stay.</p>
        <TextField label="Messages per second, at most" kind="number" value={perSecond} onValue={setPerSecond} required />
        <TextField label="Only those that this SQL filter selects (optional)" value={filter} onValue={setFilter} />
        <button type="submit" disabled={action.isBusy}>
          Resubmit
        </button>
        <Notice error={action.error} />
      </form>
    </Dialog>
  );
}

function PurgeDialog({ path, chosen, onClose }: ChosenProps) {
  const [confirmation, setConfirmation] = useState("");
  const action = useAction();
  const submit = async (event: Event) => {
    event.preventDefault();
    await action.run(async () => {
      const body = { path: `${path}/$deadletterqueue`, reason: chosen.reason, confirmation };
      const { count: removed } = await post<{ count: number }>("purge", body);
      return `${count(removed)} dead letters were removed.`;
    });
  };
  return (
    <Dialog title="Purge" onClose={onClose}>
      <form onSubmit={submit}>
        <p>{named(chosen)} are removed for ever.</p>
        <TextField label={`Type ${path} to confirm`} value={confirmation} onValue={setConfirmation} required />
        <button type="submit" class="danger" disabled={action.isBusy || confirmation !== path}>
          Purge
        </button>
        <Notice error={action.error} done={action.done} />
      </form>
    </Dialog>
  );
}
