// SPDX-License-Identifier: Apache-2.0
// The bundler takes styles as modules.

declare module "*.css";
