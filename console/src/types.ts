// SPDX-License-Identifier: Apache-2.0
// What the server answers; rust/oxbus-server/src/console/api has the other side.

export interface State {
  version: string;
  is_read_only: boolean;
  has_development_key: boolean;
  signed_in: { key_name: string; rights: string[]; csrf: string } | null;
}

export interface Paged<T> {
  rows: T[];
  found: number;
  page: number;
  pages: number;
}

export interface Rates {
  in_per_second: number;
  out_per_second: number;
}

export interface EntityRow extends Rates {
  name: string;
  kind: string;
  status: string;
  is_available: boolean;
  requires_session: boolean;
  active: number;
  locked: number;
  deferred: number;
  scheduled: number;
  dead: number;
  transfer: number;
  bytes: number;
  oldest_ms: number | null;
}

export interface Overview {
  now_ms: number;
  totals: {
    entities: number;
    active: number;
    dead: number;
    scheduled: number;
    locked: number;
    bytes: number;
    rates: Rates;
    partitions: number;
    partitions_out: number;
    is_durable: boolean;
  };
  page: Paged<EntityRow>;
}

export interface PartitionCounts {
  partition: number;
  is_reached: boolean;
  reason: string | null;
  ready: number;
  locked: number;
  deferred: number;
  scheduled: number;
  dead: number;
  transfer: number;
  bytes: number;
}

export interface Setting {
  name: string;
  kind: "duration" | "optional_duration" | "number" | "flag" | "text" | "status";
  min: number;
  max: number;
  value: string | number | boolean | null;
}

export interface Rule {
  name: string;
  filter: {
    kind: "true" | "false" | "sql" | "correlation";
    expression?: string;
    parameters?: [string, string][];
    fields?: [string, string | null][];
    properties?: [string, string][];
  };
  action: string | null;
  created_ms: number;
}

export interface EntityPage {
  now_ms: number;
  name: string;
  kind: string;
  is_available: boolean;
  is_partitioned: boolean;
  requires_session: boolean;
  created_ms: number;
  updated_ms: number;
  accessed_ms: number | null;
  partitions: PartitionCounts[];
  rates: Rates;
  settings: { editable: Setting[]; statuses: string[]; fixed: Record<string, boolean | number> };
  rules: Rule[];
  subscriptions: string[];
  subscriptions_all: number;
}

export interface Sample {
  at_ms: number;
  sent: number;
  received: number;
  completed: number;
  depth: number;
}

export interface History {
  short: Sample[];
  long: Sample[];
}

export interface Brief {
  number: string;
  partition: number | null;
  state: string;
  enqueued_ms: number;
  expires_ms: number | null;
  delivery_count: number;
  bytes: number;
  message_id: string | null;
  session_id: string | null;
  subject: string | null;
  content_type: string | null;
  preview: string;
  body_bytes: number;
  reason: string | null;
  description: string | null;
}

export interface Property {
  name: string;
  kind: string;
  value: string;
}

export interface Message extends Brief {
  partition_key: string | null;
  correlation_id: string | null;
  to: string | null;
  reply_to: string | null;
  reply_to_session_id: string | null;
  time_to_live_ms: number | null;
  scheduled_ms: number | null;
  enqueued_number: string | null;
  dead_letter_source: string | null;
  properties: Property[];
  body: string;
  body_kind: string;
  is_cut: boolean;
}

export interface Messages {
  now_ms: number;
  messages: Brief[];
  looked_at: number;
  next: string | null;
}

export interface Job {
  id: number;
  entity: string;
  total: number;
  done: number;
  per_second: number;
  started_ms: number;
  key_name: string;
  is_running: boolean;
  end: string | null;
}

export interface DeadLetters {
  name: string;
  now_ms: number;
  groups: {
    reason: string;
    exception: string;
    count: number;
    oldest_ms: number;
    newest_ms: number;
    samples: Brief[];
  }[];
  looked_at: number;
  is_complete: boolean;
  total: number;
  jobs: Job[];
}

export interface SessionRow {
  id: string;
  partition: number | null;
  messages: number;
  oldest_ms: number | null;
  holder: string | null;
  holder_connection: { connection: number; peer: string | null } | null;
  until_ms: number | null;
  state_set_ms: number | null;
}

export interface Sessions {
  now_ms: number;
  name: string;
  total: number;
  page: Paged<SessionRow>;
}

export interface Holder {
  connection: number;
  peer: string | null;
  sdk: string;
  key_name: string | null;
  link: string;
  entity: string | null;
  session: string | null;
  mode: string | null;
  credit: number;
  unsettled: number;
  held: string[];
  idle_ms: number;
}

export interface Locks {
  now_ms: number;
  holders: Holder[];
  locked: {
    messages: (Brief & { holder: { connection: number; peer: string | null; link: string } | null })[];
    looked_at: number;
  } | null;
  reservations: {
    entity: string;
    consumer: string;
    epoch: number;
    done: number;
    reservation: number;
    messages: number;
    is_live: boolean;
    expires_ms: number | null;
  }[];
  stages: {
    id: string;
    entity: string;
    created_ms: number;
    expires_ms: number;
    rows: number;
    bytes: number;
    state: string;
    of: string | null;
  }[];
}

export interface Connection {
  number: number;
  peer: string | null;
  is_encrypted: boolean;
  key_name: string | null;
  container: string;
  sdk: string;
  opened_ms: number;
  messages_in: number;
  messages_out: number;
  links: {
    name: string;
    role: string;
    entity: string | null;
    session: string | null;
    mode: string | null;
    credit: number;
    held: string[];
    unsettled: number;
    messages: number;
    idle_ms: number;
  }[];
}

export interface Connections {
  now_ms: number;
  total: number;
  connections: Connection[];
  refusals: {
    what: string;
    reason: string;
    detail: string;
    count: number;
    first_ms: number;
    last_ms: number;
  }[];
}

export interface Partitions {
  now_ms: number;
  is_durable: boolean;
  partitions: {
    partition: number;
    fault: string | null;
    can_heal: boolean;
    reason: string | null;
    journal_bytes: number | null;
    snapshot_bytes: number | null;
    snapshot_age_ms: number | null;
    is_full: boolean;
  }[];
}
