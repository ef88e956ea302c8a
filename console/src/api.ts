// SPDX-License-Identifier: Apache-2.0
// Requests to the server: resources are read with GET or live, and changed with POST and the token against forgery.

import { useEffect, useState } from "preact/hooks";
import type { State } from "./types";

const ROOT = "/$console/api/";

let csrf = "";
let onSignedOut = () => {};

/** What happened and what to do, as the server said it. */
export class ServerError extends Error {}

export function rememberToken(token: string): void {
  csrf = token;
}

export function whenSignedOut(call: () => void): void {
  onSignedOut = call;
}

async function answer<T>(response: Response): Promise<T> {
  const text = await response.text();
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new ServerError(`The server answered ${response.status} without JSON; reload the page.`);
  }
  if (response.ok) {
    return value as T;
  }
  if (response.status === 401) {
    onSignedOut();
  }
  throw new ServerError(String((value as { error?: string }).error ?? response.status));
}

async function ask<T>(resource: string, options: RequestInit): Promise<T> {
  let response: Response;
  try {
    response = await fetch(ROOT + resource, { credentials: "same-origin", ...options });
  } catch {
    throw new ServerError("The server does not answer; is it running?");
  }
  return answer<T>(response);
}

export function get<T>(resource: string): Promise<T> {
  return ask<T>(resource, {});
}

export function post<T>(resource: string, body: unknown): Promise<T> {
  const headers = { "Content-Type": "application/json", "X-CSRF-Token": csrf };
  return ask<T>(resource, { method: "POST", headers, body: JSON.stringify(body) });
}

export function state(): Promise<State> {
  return get<State>("state");
}

/** A resource with its parameters; those without a value are left out. */
export function resource(name: string, parameters: Record<string, string | number | null | undefined>): string {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(parameters)) {
    if (value !== null && value !== undefined && value !== "") {
      query.set(key, String(value));
    }
  }
  const text = query.toString();
  return text === "" ? name : `${name}?${text}`;
}

export interface Live<T> {
  data: T | null;
  error: string | null;
  isLive: boolean;
  reload: () => void;
}

/** A resource that the server sends again each time that it changes. */
export function useLive<T>(name: string): Live<T> {
  const [held, setHeld] = useState<{ name: string; data: T | null; error: string | null }>({
    name,
    data: null,
    error: null,
  });
  const [isLive, setLive] = useState(false);
  const [count, setCount] = useState(0);
  useEffect(() => {
    const source = new EventSource(`${ROOT}live?resource=${encodeURIComponent(name)}`);
    source.onopen = () => setLive(true);
    source.onmessage = (event: MessageEvent<string>) => {
      const value = JSON.parse(event.data) as T & { error?: string };
      if (typeof value.error === "string") {
        setHeld({ name, data: null, error: value.error });
      } else {
        setHeld({ name, data: value, error: null });
      }
    };
    source.onerror = () => {
      setLive(false);
      // The browser tries again by itself, unless the server refused: then its answer says why.
      if (source.readyState === EventSource.CLOSED) {
        get<T>(name).then(
          (data) => setHeld({ name, data, error: null }),
          (error: Error) => setHeld({ name, data: null, error: error.message }),
        );
      }
    };
    return () => source.close();
  }, [name, count]);
  return { data: held.data, error: held.error, isLive, reload: () => setCount((before) => before + 1) };
}

/** A resource that is read once, and again on demand. */
export function useOnce<T>(name: string | null): Live<T> {
  const [data, setData] = useState<T | null>(null);
  const [error, setError] = useState<string | null>(null);
  const [count, setCount] = useState(0);
  useEffect(() => {
    if (name === null) {
      return;
    }
    let isCurrent = true;
    get<T>(name).then(
      (value) => {
        if (isCurrent) {
          setData(value);
          setError(null);
        }
      },
      (failure: Error) => isCurrent && setError(failure.message),
    );
    return () => {
      isCurrent = false;
    };
  }, [name, count]);
  return { data, error, isLive: false, reload: () => setCount((before) => before + 1) };
}
