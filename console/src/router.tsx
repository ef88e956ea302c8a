// SPDX-License-Identifier: Apache-2.0
// The pages by their address, without loading a document again.

import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";

export const ROOT = "/$console/";

export interface Place {
  page: string;
  query: URLSearchParams;
}

function here(): Place {
  const page = window.location.pathname.slice(ROOT.length).replace(/\/$/, "");
  return { page: page === "" ? "overview" : page, query: new URLSearchParams(window.location.search) };
}

/** The address of a page. */
export function to(page: string, query: Record<string, string | number | null | undefined> = {}): string {
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== "") {
      search.set(key, String(value));
    }
  }
  const text = search.toString();
  return `${ROOT}${page === "overview" ? "" : page}${text === "" ? "" : `?${text}`}`;
}

const MOVED = "oxbus-moved";

export function go(address: string, replace = false): void {
  if (replace) {
    window.history.replaceState(null, "", address);
  } else {
    window.history.pushState(null, "", address);
  }
  window.dispatchEvent(new Event(MOVED));
}

export function usePlace(): Place {
  const [place, setPlace] = useState(here);
  useEffect(() => {
    const move = () => setPlace(here());
    window.addEventListener("popstate", move);
    window.addEventListener(MOVED, move);
    return () => {
      window.removeEventListener("popstate", move);
      window.removeEventListener(MOVED, move);
    };
  }, []);
  return place;
}

interface LinkProps {
  href: string;
  children: ComponentChildren;
  current?: boolean;
}

export function Link({ href, children, current = false }: LinkProps) {
  const click = (event: MouseEvent) => {
    if (event.button === 0 && !event.ctrlKey && !event.metaKey && !event.shiftKey && !event.altKey) {
      event.preventDefault();
      go(href);
      window.scrollTo(0, 0);
    }
  };
  return (
    <a href={href} onClick={click} aria-current={current ? "page" : undefined}>
      {children}
    </a>
  );
}
