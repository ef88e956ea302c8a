# SPDX-License-Identifier: Apache-2.0
"""`format("oxbus")`: queues, topics and subscriptions as frames and streams, through a server for bulk clients.

Where the code runs (processes share no memory):

- workers that Spark starts on the driver to plan a query check options and columns;
- one worker per query run, on the driver, runs the callbacks of a stream and holds its state (`consumer`);
- workers of the executors read and write, with pickled readers, writers and tasks.
"""
