// SPDX-License-Identifier: Apache-2.0
// The rules of a subscription, and which messages a rule would select.

import { useState } from "preact/hooks";
import { post } from "./api";
import { count } from "./format";
import { Dialog, Notice, SelectField, Table, TextField, useAction } from "./parts";
import { useRights } from "./rights";
import { MessageTable } from "./message_table";
import type { Brief, Rule } from "./types";

interface Draft {
  name: string;
  kind: string;
  expression: string;
  correlation: string;
  action: string;
  isUpdate: boolean;
}

interface Tested {
  looked_at: number;
  selected: number;
  messages: Brief[];
  failed: { number: string; reason: string }[];
}

const NEW: Draft = { name: "", kind: "sql", expression: "", correlation: "", action: "", isUpdate: false };

function text(filter: Rule["filter"]): string {
  if (filter.kind === "sql") {
    const values = (filter.parameters ?? []).map(([name, value]) => `${name} = ${value}`);
    return `${filter.expression ?? ""}${values.length === 0 ? "" : ` (${values.join(", ")})`}`;
  }
  if (filter.kind === "correlation") {
    const all = [...(filter.fields ?? []).filter(([, value]) => value !== null), ...(filter.properties ?? [])];
    return all.map(([name, value]) => `${name}=${value}`).join("\n");
  }
  return filter.kind === "true" ? "every message" : "no message";
}

function draftOf(rule: Rule): Draft {
  const { kind } = rule.filter;
  return {
    name: rule.name,
    kind,
    expression: kind === "sql" ? (rule.filter.expression ?? "") : "",
    correlation: kind === "correlation" ? text(rule.filter) : "",
    action: rule.action ?? "",
    isUpdate: true,
  };
}

function body(path: string, draft: Draft) {
  const pairs = draft.correlation
    .split("\n")
    .filter((line) => line.includes("="))
    .map((line) => [line.slice(0, line.indexOf("=")).trim(), line.slice(line.indexOf("=") + 1).trim()]);
  return {
    path,
    name: draft.name === "" ? "test" : draft.name,
    kind: draft.kind,
    expression: draft.expression,
    correlation: pairs,
    action: draft.action,
    is_update: draft.isUpdate,
  };
}

export function RulesSection({ path, rules }: { path: string; rules: Rule[] }) {
  const { manage } = useRights();
  const [draft, setDraft] = useState<Draft | null>(null);
  const action = useAction();
  const remove = (name: string) => {
    if (window.confirm(`Delete the rule ${name}? Messages that only it selects will no longer arrive.`)) {
      action.run(async () => {
        await post("rule-delete", { path, name });
        return `The rule ${name} is deleted.`;
      });
    }
  };
  return (
    <section aria-label="Rules">
      <h2>Rules</h2>
      <Table
        caption="Rules of the subscription"
        rows={rules}
        rowKey={(rule) => rule.name}
        empty="There is no rule, so no message arrives."
        columns={[
          { title: "Name", cell: (rule) => rule.name },
          { title: "Filter", cell: (rule) => <code>{text(rule.filter)}</code> },
          { title: "Action", cell: (rule) => rule.action !== null && <code>{rule.action}</code> },
          {
            title: "Do",
            cell: (rule) => (
              <>
                <button type="button" onClick={() => setDraft(draftOf(rule))} aria-label={`Test or change ${rule.name}`}>
                  {manage ? "Test or change" : "Test"}
                </button>
                {manage && (
                  <button type="button" onClick={() => remove(rule.name)} aria-label={`Delete ${rule.name}`}>
                    Delete
                  </button>
                )}
              </>
            ),
          },
        ]}
      />
      <p>
        <button type="button" onClick={() => setDraft(NEW)}>
          {manage ? "New rule" : "Test a filter"}
        </button>
      </p>
      <Notice error={action.error} done={action.done} />
      {draft !== null && <RuleDialog path={path} first={draft} onClose={() => setDraft(null)} />}
    </section>
  );
}

function RuleDialog({ path, first, onClose }: { path: string; first: Draft; onClose: () => void }) {
  const { manage } = useRights();
  const [draft, setDraft] = useState(first);
  const [tested, setTested] = useState<Tested | null>(null);
  const action = useAction();
  const set = (changes: Partial<Draft>) => setDraft((before) => ({ ...before, ...changes }));
  const test = () =>
    action.run(async () => {
      const found = await post<Tested>("rule-test", body(path, draft));
      setTested(found);
      return `${count(found.selected)} of ${count(found.looked_at)} messages would match.`;
    });
  const save = async (event: Event) => {
    event.preventDefault();
    const isSaved = await action.run(async () => {
      await post("rule", body(path, draft));
      return "Saved.";
    });
    if (isSaved) {
      onClose();
    }
  };
  return (
    <Dialog title={first.isUpdate ? `Rule ${first.name}` : "New rule"} onClose={onClose}>
      <form onSubmit={save}>
        {!first.isUpdate && <TextField label="Name" value={draft.name} onValue={(name) => set({ name })} />}
        <SelectField
          label="Filter"
          value={draft.kind}
          options={[
            ["sql", "SQL"],
            ["correlation", "correlation"],
            ["true", "every message"],
            ["false", "no message"],
          ]}
          onValue={(kind) => set({ kind })}
        />
        {draft.kind === "sql" && (
          <TextField
            label="Expression"
            value={draft.expression}
            onValue={(expression) => set({ expression })}
            hint="For example: color = 'red' AND sys.Label LIKE 'a%'"
          />
        )}
        {draft.kind === "correlation" && (
          <div class="field">
            <label for="correlation">Values, one NAME=VALUE a line</label>
            <textarea
              id="correlation"
              rows={4}
              value={draft.correlation}
              onInput={(event) => set({ correlation: event.currentTarget.value })}
            />
          </div>
        )}
        <TextField label="Action (optional)" value={draft.action} onValue={(action) => set({ action })} />
        <p>
          <button type="button" onClick={test} disabled={action.isBusy}>
            Which messages would match?
          </button>
          {manage && (
            <button type="submit" disabled={action.isBusy}>
              Save
            </button>
          )}
        </p>
        <Notice error={action.error} done={action.done} />
      </form>
      {tested !== null && tested.failed.length > 0 && (
        <p class="error">
          The filter cannot be evaluated for message {tested.failed[0]?.number}: {tested.failed[0]?.reason}
        </p>
      )}
      {tested !== null && <MessageTable caption="Messages that would match" path={path} messages={tested.messages} />}
    </Dialog>
  );
}
