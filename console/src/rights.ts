// SPDX-License-Identifier: Apache-2.0
// What the person who has signed in may do. The server decides; the pages only leave out what it would refuse.

import { createContext } from "preact";
import { useContext } from "preact/hooks";

export interface Rights {
  manage: boolean;
  send: boolean;
  isReadOnly: boolean;
}

export const RightsContext = createContext<Rights>({ manage: false, send: false, isReadOnly: false });

export function useRights(): Rights {
  return useContext(RightsContext);
}
