# SPDX-License-Identifier: Apache-2.0
"""`format("oxbus")`: queues, topics and subscriptions as frames and streams, through a broker that serves bulk clients.

What runs where, since nothing of one process is seen by another:

- options and columns are checked in workers that Spark starts on the driver to plan a query;
- the callbacks of a stream run in one worker per query run, on the driver, which keeps its state (`reservation`);
- reading and writing run in the workers of the executors, which get pickled readers, writers and tasks.
"""
