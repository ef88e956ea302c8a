// SPDX-License-Identifier: Apache-2.0
// The settings of an entity with their limits; each is changed alone.

import { useState } from "preact/hooks";
import { post } from "./api";
import { count, duration, parseDuration } from "./format";
import { Notice, SelectField, TextField, useAction } from "./parts";
import { useRights } from "./rights";
import type { EntityPage, Setting } from "./types";

type Settings = EntityPage["settings"];

function shown(setting: Setting): string {
  const { kind, value } = setting;
  if (kind === "duration" || kind === "optional_duration") {
    return typeof value === "number" ? duration(value) : "never";
  }
  return value === null ? "" : String(value);
}

function limits(setting: Setting): string {
  switch (setting.kind) {
    case "duration":
      return `${duration(setting.min)} to ${duration(setting.max)}`;
    case "optional_duration":
      return `${duration(setting.min)} or more, or never`;
    case "number":
      return `${count(setting.min)} to ${count(setting.max)}`;
    case "text":
      return `at most ${setting.max} characters; empty for none`;
    default:
      return "";
  }
}

/** The value to send; throws if the text is none. */
function parse(setting: Setting, text: string): string | number | boolean | null {
  switch (setting.kind) {
    case "flag":
      return text === "true";
    case "number":
      return toNumber(Number(text.trim() === "" ? Number.NaN : text));
    case "optional_duration":
      return text.trim() === "never" || text.trim() === "" ? null : toNumber(parseDuration(text));
    case "duration":
      return toNumber(parseDuration(text));
    default:
      return text;
  }
}

function toNumber(value: number): number {
  if (Number.isNaN(value)) {
    throw new Error("That is not a value of this setting; write a number, or a duration such as 30 s or 5 min.");
  }
  return value;
}

export function SettingsSection({ path, settings }: { path: string; settings: Settings }) {
  const [edited, setEdited] = useState<string | null>(null);
  const { manage } = useRights();
  return (
    <section aria-label="Settings">
      <h2>Settings</h2>
      <div class="scroll" tabIndex={0} role="region" aria-label="Settings table">
        <table>
          <caption>Settings and their limits</caption>
          <thead>
            <tr>
              <th scope="col">Setting</th>
              <th scope="col">Value</th>
              <th scope="col">Limits</th>
              <th scope="col">Change</th>
            </tr>
          </thead>
          <tbody>
            {settings.editable.map((setting) => (
              <Row
                key={setting.name}
                path={path}
                setting={setting}
                statuses={settings.statuses}
                isEdited={edited === setting.name}
                onEdit={manage ? () => setEdited(setting.name) : undefined}
                onEnd={() => setEdited(null)}
              />
            ))}
            {Object.entries(settings.fixed).map(([name, value]) => (
              <tr key={name}>
                <th scope="row">{name}</th>
                <td>{String(value)}</td>
                <td class="quiet">fixed when it was created</td>
                <td />
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

interface RowProps {
  path: string;
  setting: Setting;
  statuses: string[];
  isEdited: boolean;
  onEdit: (() => void) | undefined;
  onEnd: () => void;
}

function Row({ path, setting, statuses, isEdited, onEdit, onEnd }: RowProps) {
  const [text, setText] = useState("");
  const action = useAction();
  const begin = () => {
    setText(shown(setting));
    onEdit?.();
  };
  const save = async (event: Event) => {
    event.preventDefault();
    const isSaved = await action.run(async () => {
      await post("settings", { path, name: setting.name, value: parse(setting, text) });
      return "Saved.";
    });
    if (isSaved) {
      onEnd();
    }
  };
  const options: [string, string][] =
    setting.kind === "status" ? statuses.map((it) => [it, it]) : [["true", "true"], ["false", "false"]];
  return (
    <tr>
      <th scope="row">{setting.name}</th>
      <td>
        {isEdited ? (
          <form onSubmit={save} class="inline">
            {setting.kind === "status" || setting.kind === "flag" ? (
              <SelectField label={`New ${setting.name}`} value={text} options={options} onValue={setText} />
            ) : (
              <TextField label={`New ${setting.name}`} value={text} onValue={setText} />
            )}
            <button type="submit" disabled={action.isBusy}>
              Save
            </button>
            <button type="button" onClick={onEnd}>
              Cancel
            </button>
          </form>
        ) : (
          shown(setting)
        )}
        <Notice error={action.error} done={action.done} />
      </td>
      <td class="quiet">{limits(setting)}</td>
      <td>
        {onEdit !== undefined && !isEdited && (
          <button type="button" onClick={begin} aria-label={`Change ${setting.name}`}>
            Change
          </button>
        )}
      </td>
    </tr>
  );
}
