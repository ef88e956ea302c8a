// SPDX-License-Identifier: Apache-2.0
//! Placeholder until the next commit.
