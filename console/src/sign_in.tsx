// SPDX-License-Identifier: Apache-2.0
// Signing in with the name of a key and the key.

import { useState } from "preact/hooks";
import { post } from "./api";
import { Notice, TextField, useAction } from "./parts";

interface Props {
  hasDevelopmentKey: boolean;
  onSignedIn: () => void;
}

export function SignIn({ hasDevelopmentKey, onSignedIn }: Props) {
  const [keyName, setKeyName] = useState(hasDevelopmentKey ? "RootManageSharedAccessKey" : "");
  const [key, setKey] = useState("");
  const action = useAction();
  const submit = async (event: Event) => {
    event.preventDefault();
    const isIn = await action.run(async () => {
      await post("sign-in", { key_name: keyName, key });
      return "Signed in.";
    });
    setKey("");
    if (isIn) {
      onSignedIn();
    }
  };
  return (
    <main class="sign-in">
      <h1>oxbus console</h1>
      <form onSubmit={submit}>
        <TextField label="Name of the key" value={keyName} onValue={setKeyName} required autocomplete="username" />
        <TextField
          label="Key"
          value={key}
          onValue={setKey}
          kind="password"
          required
          autocomplete="current-password"
          hint="SharedAccessKeyName and SharedAccessKey of a connection string. Listen looks, Manage changes."
        />
        {hasDevelopmentKey && (
          <p class="quiet">This server has the development key, which everybody knows: SAS_KEY_VALUE.</p>
        )}
        <button type="submit" disabled={action.isBusy}>
          Sign in
        </button>
        <Notice error={action.error} />
      </form>
    </main>
  );
}
