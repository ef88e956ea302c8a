// SPDX-License-Identifier: Apache-2.0
// The parts that pages share: tables, pages of a list, fields, and the state of a request.

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { count } from "./format";
import { go } from "./router";

export interface Column<T> {
  title: string;
  /** The name by which the server sorts. */
  sort?: string;
  isNumber?: boolean;
  cell: (row: T) => ComponentChildren;
}

interface TableProps<T> {
  caption: string;
  columns: Column<T>[];
  rows: T[];
  rowKey: (row: T) => string | number;
  empty: string;
  sort?: string;
  onSort?: (sort: string) => void;
}

/** A table whose first cell names the row, and whose titles sort it. */
export function Table<T>({ caption, columns, rows, rowKey, empty, sort = "", onSort }: TableProps<T>) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={caption}>
      <table>
        <caption>{caption}</caption>
        <thead>
          <tr>
            {columns.map((column) => (
              <Title key={column.title} column={column} sort={sort} onSort={onSort} />
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.length === 0 && (
            <tr>
              <td colSpan={columns.length} class="quiet">
                {empty}
              </td>
            </tr>
          )}
          {rows.map((row) => (
            <tr key={rowKey(row)}>
              {columns.map((column, at) => {
                const kind = column.isNumber ? "number" : undefined;
                return at === 0 ? (
                  <th key={column.title} scope="row" class={kind}>
                    {column.cell(row)}
                  </th>
                ) : (
                  <td key={column.title} class={kind}>
                    {column.cell(row)}
                  </td>
                );
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

interface TitleProps<T> {
  column: Column<T>;
  sort: string;
  onSort: ((sort: string) => void) | undefined;
}

function Title<T>({ column, sort, onSort }: TitleProps<T>) {
  const kind = column.isNumber ? "number" : undefined;
  const name = column.sort;
  if (name === undefined || onSort === undefined) {
    return (
      <th scope="col" class={kind}>
        {column.title}
      </th>
    );
  }
  const isDown = sort === `-${name}`;
  const isUp = sort === name;
  const next = isDown || (!isUp && !column.isNumber) ? name : `-${name}`;
  return (
    <th scope="col" class={kind} aria-sort={isDown ? "descending" : isUp ? "ascending" : "none"}>
      <button type="button" class="title" onClick={() => onSort(next)}>
        {column.title}
        <span aria-hidden="true">{isDown ? " ▼" : isUp ? " ▲" : ""}</span>
      </button>
    </th>
  );
}

interface PagerProps {
  page: number;
  pages: number;
  found: number;
  onPage: (page: number) => void;
}

export function Pager({ page, pages, found, onPage }: PagerProps) {
  return (
    <nav class="pager" aria-label="Pages of the list">
      <button type="button" disabled={page <= 1} onClick={() => onPage(page - 1)}>
        Previous
      </button>
      <span role="status">
        Page {count(page)} of {count(pages)}, {count(found)} found
      </span>
      <button type="button" disabled={page >= pages} onClick={() => onPage(page + 1)}>
        Next
      </button>
    </nav>
  );
}

/** A message about a failure, or about what was done. */
export function Notice({ error, done }: { error?: string | null | undefined; done?: string | null | undefined }) {
  return (
    <div aria-live="polite" role="status">
      {error && <p class="error">{error}</p>}
      {!error && done && <p class="done">{done}</p>}
    </div>
  );
}

/** What a page shows while it has no data. */
export function Waiting({ error }: { error: string | null }) {
  return error === null ? <p class="quiet">Loading…</p> : <Notice error={error} />;
}

interface FieldProps {
  label: string;
  hint?: string;
  children: (id: string, hintId: string | undefined) => ComponentChildren;
}

let fields = 0;

export function Field({ label, hint, children }: FieldProps) {
  const [id] = useState(() => `field-${(fields += 1)}`);
  const hintId = hint === undefined ? undefined : `${id}-hint`;
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {children(id, hintId)}
      {hint !== undefined && (
        <small id={hintId} class="quiet">
          {hint}
        </small>
      )}
    </div>
  );
}

type InputKind = "text" | "search" | "password" | "number" | "datetime-local";

interface TextFieldProps {
  label: string;
  value: string;
  onValue: (value: string) => void;
  hint?: string;
  kind?: InputKind;
  required?: boolean;
  autocomplete?: string;
}

export function TextField(props: TextFieldProps) {
  const { label, value, onValue, hint, kind = "text", required = false, autocomplete = "off" } = props;
  return (
    <Field label={label} {...(hint === undefined ? {} : { hint })}>
      {(id, hintId) => (
        <input
          id={id}
          {...({ type: kind } as { type: "text" })}
          value={value}
          required={required}
          autocomplete={autocomplete}
          spellcheck={false}
          aria-describedby={hintId}
          onInput={(event) => onValue(event.currentTarget.value)}
        />
      )}
    </Field>
  );
}

interface SelectFieldProps {
  label: string;
  value: string;
  options: [string, string][];
  onValue: (value: string) => void;
}

export function SelectField({ label, value, options, onValue }: SelectFieldProps) {
  return (
    <Field label={label}>
      {(id) => (
        <select id={id} value={value} onChange={(event) => onValue(event.currentTarget.value)}>
          {options.map(([key, text]) => (
            <option key={key} value={key} selected={key === value}>
              {text}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}

/** A search that waits until the typing pauses. */
export function Search({ label, value, onValue }: { label: string; value: string; onValue: (value: string) => void }) {
  const [text, setText] = useState(value);
  const timer = useRef(0);
  useEffect(() => () => window.clearTimeout(timer.current), []);
  const type = (next: string) => {
    setText(next);
    window.clearTimeout(timer.current);
    timer.current = window.setTimeout(() => onValue(next), 250);
  };
  return <TextField label={label} value={text} kind="search" onValue={type} />;
}

/** Changes the parameters of the page's address, and so what it shows. */
export function change(query: URLSearchParams, changes: Record<string, string | number | null>): void {
  const next = new URLSearchParams(query);
  for (const [key, value] of Object.entries(changes)) {
    if (value === null || value === "") {
      next.delete(key);
    } else {
      next.set(key, String(value));
    }
  }
  const text = next.toString();
  go(`${window.location.pathname}${text === "" ? "" : `?${text}`}`, true);
}

/** Runs changes one at a time, and remembers how the last one ended. */
export function useAction(): {
  error: string | null;
  done: string | null;
  isBusy: boolean;
  run: (work: () => Promise<string>) => Promise<boolean>;
} {
  const [error, setError] = useState<string | null>(null);
  const [done, setDone] = useState<string | null>(null);
  const [isBusy, setBusy] = useState(false);
  const run = async (work: () => Promise<string>) => {
    setBusy(true);
    setError(null);
    setDone(null);
    try {
      setDone(await work());
      return true;
    } catch (failure) {
      setError((failure as Error).message);
      return false;
    } finally {
      setBusy(false);
    }
  };
  return { error, done, isBusy, run };
}

interface DialogProps {
  title: string;
  onClose: () => void;
  children: ComponentChildren;
}

/** A modal dialog: the browser keeps the focus inside, and Escape closes it. */
export function Dialog({ title, onClose, children }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const shown = dialog.current;
    const before = document.activeElement;
    shown?.showModal();
    return () => {
      shown?.close();
      if (before instanceof HTMLElement) {
        before.focus();
      }
    };
  }, []);
  return (
    <dialog ref={dialog} aria-label={title} onCancel={onClose}>
      <header>
        <h2>{title}</h2>
        <button type="button" onClick={onClose}>
          Close
        </button>
      </header>
      {children}
    </dialog>
  );
}
