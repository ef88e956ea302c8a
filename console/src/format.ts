// SPDX-License-Identifier: Apache-2.0
// Values as text for people.

const NUMBER = new Intl.NumberFormat("en-GB");
const UNITS: [number, string][] = [
  [86_400_000, "d"],
  [3_600_000, "h"],
  [60_000, "min"],
  [1_000, "s"],
];

export function count(value: number): string {
  return NUMBER.format(value);
}

export function bytes(value: number | null): string {
  if (value === null) {
    return "";
  }
  for (const [size, unit] of [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]] as const) {
    if (value >= size) {
      return `${(value / size).toFixed(1)} ${unit}`;
    }
  }
  return `${value} B`;
}

export function rate(value: number): string {
  if (value === 0) {
    return "0";
  }
  return value < 10 ? value.toFixed(1) : count(Math.round(value));
}

/** A duration, in its two largest units. */
export function duration(ms: number | null): string {
  if (ms === null) {
    return "never";
  }
  if (ms < 1_000) {
    return `${Math.max(0, Math.round(ms))} ms`;
  }
  const parts: string[] = [];
  let left = ms;
  for (const [size, unit] of UNITS) {
    const whole = Math.floor(left / size);
    if (whole > 0 || parts.length > 0) {
      parts.push(`${whole} ${unit}`);
      left -= whole * size;
    }
    if (parts.length === 2) {
      break;
    }
  }
  return parts.filter((part) => !part.startsWith("0 ")).join(" ");
}

export function age(at: number | null, now: number): string {
  return at === null ? "" : duration(now - at);
}

export function time(ms: number | null): string {
  return ms === null ? "" : `${new Date(ms).toISOString().replace("T", " ").slice(0, 23)} Z`;
}

/** Milliseconds of a text such as `30s`, `5 min` or `PT1M`; NaN if it is none. */
export function parseDuration(text: string): number {
  const words = text.trim().toLowerCase();
  if (words === "") {
    return Number.NaN;
  }
  const iso = /^p(?:(\d+)d)?(?:t(?:(\d+)h)?(?:(\d+)m)?(?:([\d.]+)s)?)?$/.exec(words);
  if (iso !== null) {
    const [, days, hours, minutes, seconds] = iso.map((part) => Number(part ?? 0));
    return Math.round((((days ?? 0) * 24 + (hours ?? 0)) * 60 + (minutes ?? 0)) * 60_000 + (seconds ?? 0) * 1_000);
  }
  const sizes: Record<string, number> = { ms: 1, s: 1_000, m: 60_000, min: 60_000, h: 3_600_000, d: 86_400_000 };
  let sum = 0;
  const rest = words.replace(/([\d.]+)\s*(ms|min|[smhd])/g, (_, number: string, unit: string) => {
    sum += Number(number) * (sizes[unit] ?? Number.NaN);
    return "";
  });
  return rest.trim() === "" ? Math.round(sum) : Number.NaN;
}

export function fromBase64(text: string): Uint8Array {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

export function toBase64(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) {
    text += String.fromCharCode(byte);
  }
  return btoa(text);
}

/** Sixteen bytes a line, with their place and their ASCII. */
export function hex(data: Uint8Array): string {
  const lines: string[] = [];
  for (let at = 0; at < data.length; at += 16) {
    const row = [...data.subarray(at, at + 16)];
    const digits = row.map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
    const letters = row.map((byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : ".")).join("");
    lines.push(`${at.toString(16).padStart(8, "0")}  ${digits.padEnd(47)}  ${letters}`);
  }
  return lines.join("\n");
}
