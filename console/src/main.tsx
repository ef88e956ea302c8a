// SPDX-License-Identifier: Apache-2.0
// The frame of all pages: navigation, and signing in and out.

import { render } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { post, rememberToken, state as readState, whenSignedOut } from "./api";
import { ConnectionsPage } from "./connections";
import { DeadLettersPage } from "./dead_letters";
import { EntityDetails } from "./entity";
import { LocksPage } from "./locks";
import { MessagesPage } from "./messages";
import { OverviewPage } from "./overview";
import { PartitionsPage } from "./partitions";
import { RightsContext } from "./rights";
import { Link, type Place, to, usePlace } from "./router";
import { SessionsPage } from "./sessions";
import { SignIn } from "./sign_in";
import type { State } from "./types";
import "./style.css";

const TITLES: Record<string, string> = {
  overview: "Overview",
  entity: "Entity",
  messages: "Messages",
  "dead-letters": "Dead letters",
  sessions: "Sessions",
  locks: "Locks and consumers",
  connections: "Connections",
  partitions: "Partitions",
};
const MENU = ["overview", "locks", "connections", "partitions"];
const OF_ENTITY = ["entity", "messages", "dead-letters", "sessions", "locks"];

function Page({ place }: { place: Place }) {
  const path = place.query.get("path") ?? "";
  switch (place.page) {
    case "overview":
      return <OverviewPage query={place.query} />;
    case "entity":
      return <EntityDetails key={path} path={path} />;
    case "messages":
      return <MessagesPage key={path} path={path} query={place.query} />;
    case "dead-letters":
      return <DeadLettersPage key={path} path={path} />;
    case "sessions":
      return <SessionsPage key={path} path={path} query={place.query} />;
    case "locks":
      return <LocksPage key={path} path={path} />;
    case "connections":
      return <ConnectionsPage />;
    case "partitions":
      return <PartitionsPage />;
    default:
      return <p>The console has no such page. Choose one of the menu.</p>;
  }
}

function App() {
  const place = usePlace();
  const [state, setState] = useState<State | null>(null);
  const [error, setError] = useState<string | null>(null);
  const heading = useRef<HTMLHeadingElement>(null);
  const isFirst = useRef(true);
  const refresh = () => {
    readState().then((next) => {
      rememberToken(next.signed_in?.csrf ?? "");
      setState(next);
      setError(null);
    }, (failure: Error) => setError(failure.message));
  };
  useEffect(() => {
    whenSignedOut(() => setState((held) => (held === null ? held : { ...held, signed_in: null })));
    refresh();
  }, []);
  const path = place.query.get("path") ?? "";
  const title = TITLES[place.page] ?? "No such page";
  useEffect(() => {
    document.title = `${path === "" ? "" : `${path} - `}${title} - oxbus console`;
    // A new page begins at its heading, for screen readers and the keyboard.
    if (!isFirst.current) {
      heading.current?.focus();
    }
    isFirst.current = false;
  }, [place.page, path]);
  if (state === null) {
    return error === null ? <p class="loading">Loading…</p> : <p class="loading error">{error}</p>;
  }
  const { signed_in: signedIn, is_read_only: isReadOnly } = state;
  if (signedIn === null) {
    return <SignIn hasDevelopmentKey={state.has_development_key} onSignedIn={refresh} />;
  }
  const manage = signedIn.rights.includes("Manage") && !isReadOnly;
  const send = manage || (signedIn.rights.includes("Send") && !isReadOnly);
  const signOut = () => post("sign-out", {}).finally(refresh);
  return (
    <RightsContext.Provider value={{ manage, send, isReadOnly }}>
      <a class="skip" href="#content">
        Skip to the content
      </a>
      <header class="top">
        <Link href={to("overview")}>
          <strong>oxbus</strong>
        </Link>
        <nav aria-label="Main">
          {MENU.map((page) => (
            <Link key={page} href={to(page)} current={page === place.page && path === ""}>
              {TITLES[page]}
            </Link>
          ))}
        </nav>
        <span class="who">
          {signedIn.key_name}
          {isReadOnly ? " (read-only)" : manage ? "" : " (looks only)"}
          <button type="button" onClick={signOut}>
            Sign out
          </button>
        </span>
      </header>
      <main id="content" tabIndex={-1}>
        <h1 ref={heading} tabIndex={-1}>
          {title}
          {path !== "" && <span class="path"> {path}</span>}
        </h1>
        {path !== "" && (
          <nav class="tabs" aria-label="Entity">
            {OF_ENTITY.map((page) => (
              <Link key={page} href={to(page, { path: withoutSubQueue(path) })} current={page === place.page}>
                {TITLES[page]}
              </Link>
            ))}
          </nav>
        )}
        <Page place={place} />
      </main>
      <footer class="quiet">oxbus {state.version}. Times are in UTC.</footer>
    </RightsContext.Provider>
  );
}

function withoutSubQueue(path: string): string {
  return path.replace(/\/\$deadletterqueue$/i, "");
}

const root = document.getElementById("app");
if (root !== null) {
  root.textContent = "";
  render(<App />, root);
}
