// SPDX-License-Identifier: Apache-2.0
// Rates and depth over the last 15 minutes and 24 hours.

import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { resource, useLive } from "./api";
import { rate } from "./format";
import type { History, Sample } from "./types";

type Rows = [number[], ...(number | null)[][]];

/** Messages per second between each two samples, and the depth at the second. */
function rows(samples: Sample[]): Rows {
  const all: [number[], (number | null)[], (number | null)[], (number | null)[]] = [[], [], [], []];
  for (let at = 1; at < samples.length; at += 1) {
    const before = samples[at - 1];
    const after = samples[at];
    if (before === undefined || after === undefined) {
      continue;
    }
    const seconds = (after.at_ms - before.at_ms) / 1_000;
    all[0].push(after.at_ms / 1_000);
    all[1].push(Math.max(0, after.sent - before.sent) / seconds);
    all[2].push(Math.max(0, after.received - before.received) / seconds);
    all[3].push(after.depth);
  }
  return all;
}

function color(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function Plot({ title, seconds, samples }: { title: string; seconds: number; samples: Sample[] }) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const data = rows(samples);
  const dark = useDark();
  useEffect(() => {
    const element = place.current;
    if (element === null) {
      return;
    }
    const axis = { stroke: () => color("--text"), grid: { stroke: () => color("--line"), width: 1 } };
    const made = new uPlot(
      {
        width: Math.max(280, element.clientWidth),
        height: 180,
        tzDate: (seconds: number) => uPlot.tzDate(new Date(seconds * 1_000), "UTC"),
        cursor: { drag: { x: false, y: false } },
        scales: {
          // The whole time, also while there are few samples.
          x: { range: (_, __, max) => [(max ?? Date.now() / 1_000) - seconds, max ?? Date.now() / 1_000] },
          depth: { range: (_, __, max) => [0, Math.max(1, max)] },
          y: { range: (_, __, max) => [0, Math.max(1, max)] },
        },
        axes: [axis, { ...axis, label: "per second" }, { ...axis, scale: "depth", side: 1, grid: { show: false }, label: "depth" }],
        series: [
          {},
          { label: "In", stroke: () => color("--in"), width: 2, value: (_, it) => (it === null ? "" : rate(it)) },
          { label: "Out", stroke: () => color("--out"), width: 2, dash: [6, 3], value: (_, it) => (it === null ? "" : rate(it)) },
          { label: "Depth", scale: "depth", stroke: () => color("--depth"), width: 1, dash: [2, 3] },
        ],
      },
      data,
      element,
    );
    plot.current = made;
    const watcher = new ResizeObserver(() => made.setSize({ width: Math.max(280, element.clientWidth), height: 180 }));
    watcher.observe(element);
    return () => {
      watcher.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [dark]);
  useEffect(() => plot.current?.setData(data), [samples]);
  const last = data[1]?.at(-1) ?? 0;
  const out = data[2]?.at(-1) ?? 0;
  const depth = data[3]?.at(-1) ?? 0;
  return (
    <figure>
      <figcaption>
        {title}: now {rate(last ?? 0)} in and {rate(out ?? 0)} out per second, depth {depth}
      </figcaption>
      <div ref={place} class="plot" aria-hidden="true" />
    </figure>
  );
}

function useDark(): boolean {
  const [dark, setDark] = useState(() => window.matchMedia("(prefers-color-scheme: dark)").matches);
  useEffect(() => {
    const media = window.matchMedia("(prefers-color-scheme: dark)");
    const change = () => setDark(media.matches);
    media.addEventListener("change", change);
    return () => media.removeEventListener("change", change);
  }, []);
  return dark;
}

/** The plots of an entity, or of the namespace without a path. */
export function Plots({ path }: { path: string }) {
  const { data } = useLive<History>(resource("history", { path }));
  return (
    <section aria-label="Rates">
      <h2>Rates</h2>
      {data === null || data.short.length < 2 ? (
        <p class="quiet">There is nothing to plot yet: samples are taken every 5 seconds from the first message on.</p>
      ) : (
        <div class="plots">
          <Plot title="Last 15 minutes" seconds={15 * 60} samples={data.short} />
          <Plot title="Last 24 hours" seconds={24 * 3_600} samples={[...data.long, ...data.short.slice(-1)]} />
        </div>
      )}
    </section>
  );
}
