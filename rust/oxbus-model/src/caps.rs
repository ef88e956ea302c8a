// SPDX-License-Identifier: Apache-2.0
//! Every limit, with its unit and its source. Rule numbers are those of docs/behaviour.md.
//!
//! A namespace without a tier is not metered, so its ranges are wider than the service's;
//! docs/decisions/0007-no-tier-sizes.md gives the reasons.

/// Partitions of a namespace by default. Service Bus Standard has 16 (B-004).
pub const PARTITIONS_DEFAULT: u16 = 16;
/// Most partitions of a namespace: the ready mask of an entity is one 64-bit word.
pub const PARTITIONS_MAX: u16 = 64;

/// Characters of a message id, session id, partition key or reply-to session id (B-047).
pub const KEY_CHARS_MAX: usize = 128;
/// Characters of a queue path (B-016).
pub const ENTITY_PATH_CHARS_MAX: usize = 260;
/// Characters of the name of a subscription or a rule (B-016).
pub const SUBSCRIPTION_CHARS_MAX: usize = 50;
/// Subscriptions of a topic (B-042).
pub const SUBSCRIPTIONS_MAX: usize = 2_000;
/// SQL filters of all subscriptions of a topic, on any tier (B-042).
pub const SQL_FILTERS_MAX: usize = 2_000;
/// Correlation filters of all subscriptions of a topic, on any tier (B-042).
pub const CORRELATION_FILTERS_MAX: usize = 100_000;
/// Characters of an entity's user metadata (B-030).
pub const USER_METADATA_CHARS_MAX: usize = 1_024;
/// Characters of a dead-letter reason and of its description (B-168).
pub const DEAD_LETTER_TEXT_CHARS_MAX: usize = 4_096;

/// Bytes of one message with its properties, and of one batch: the largest the service takes on any tier (B-054).
pub const MESSAGE_SIZE_BYTES_MAX: usize = 100 << 20;
/// Bytes of a batch object whose caller names no size (B-054: "any batch 1 MB").
pub const BATCH_SIZE_BYTES_DEFAULT: usize = 1 << 20;
/// Bytes that a batch counts for each message beyond the message itself: its section header on the wire.
pub const BATCH_MESSAGE_OVERHEAD_BYTES: usize = 8;

/// Messages that one transaction may send (B-050).
pub const TRANSACTION_MESSAGES_MAX: usize = 100;
/// Milliseconds from the first operation of a transaction to its commit (B-318).
pub const TRANSACTION_MS_MAX: u64 = 120_000;

/// Times a message may be forwarded (B-334).
pub const HOPS_MAX: u8 = 4;
/// Shortest time without use after which the broker can delete an entity, in milliseconds (B-028).
pub const AUTO_DELETE_ON_IDLE_MS_MIN: u64 = 300_000;

/// Bytes of a message, and of a whole batch, on Basic and Standard (B-053).
pub const STANDARD_MESSAGE_SIZE_BYTES_MAX: usize = 256 << 10;
/// Bytes of a message on Premium by default, and the most on a partitioned one (B-013, B-054).
pub const PREMIUM_MESSAGE_SIZE_BYTES_DEFAULT: usize = 1 << 20;
/// Queues and topics of a namespace on Basic and Standard (B-040).
pub const ENTITIES_MAX: usize = 10_000;
/// Queues and topics of a namespace on Premium with one messaging unit (B-040).
pub const PREMIUM_ENTITIES_MAX: usize = 1_000;
/// Partitioned queues and topics of a namespace on Basic and Standard (B-041).
pub const PARTITIONED_ENTITIES_MAX: usize = 100;
/// Shortest lock on any tier, in milliseconds (B-025).
pub const TIER_LOCK_DURATION_MS_MIN: u64 = 5_000;
/// Longest lock on any tier, in milliseconds (B-025).
pub const TIER_LOCK_DURATION_MS_MAX: u64 = 300_000;
/// Shortest duplicate-detection window on any tier, in milliseconds (B-027).
pub const TIER_DUPLICATE_WINDOW_MS_MIN: u64 = 20_000;
/// Longest duplicate-detection window on any tier, in milliseconds (B-027).
pub const TIER_DUPLICATE_WINDOW_MS_MAX: u64 = 7 * 86_400_000;
/// Longest time to live on Basic, in milliseconds (B-003).
pub const BASIC_TIME_TO_LIVE_MS_MAX: u64 = 14 * 86_400_000;

/// Messages that a purge looks at in one step. Bounds the memory of a call.
pub const PURGE_PAGE_MESSAGES: usize = 256;
/// Messages of one peek (B-051).
pub const PEEK_MESSAGES_MAX: usize = 250;
/// Sequence numbers of one receive-and-delete of deferred messages (B-280).
pub const DEFERRED_RECEIVE_MAX: usize = 250;
/// Messages a receiver may prefetch: the SDK's own bound.
pub const PREFETCH_COUNT_MAX: usize = 50_000;
/// Messages a receiver may ask for at once. Bounds the memory of one call.
pub const RECEIVE_MESSAGES_MAX: usize = 1 << 20;

/// Shortest lock, in milliseconds, without a tier (the service starts at 5 s, B-025).
pub const LOCK_DURATION_MS_MIN: u64 = 500;
/// Longest lock, in milliseconds, without a tier (the service ends at 5 min, B-025). Deadlines in a slot have
/// 24 bits, so a lock must stay well below 2^23 ms.
pub const LOCK_DURATION_MS_MAX: u64 = 3_600_000;
/// Lock duration of a queue by default (B-022).
pub const LOCK_DURATION_MS_DEFAULT: u64 = 60_000;

/// Delivery count of a queue by default (B-022).
pub const MAX_DELIVERY_COUNT_DEFAULT: u32 = 10;
/// Largest delivery count: what a signed 32-bit property holds; the slot holds 28 bits of it.
pub const MAX_DELIVERY_COUNT_MAX: u32 = (1 << 28) - 1;

/// How long a partition remembers which rows of bulk loads were attached to it, in milliseconds. Ours: a job that is
/// tried again later than that is another job.
pub const ATTACHED_RETENTION_MS: u64 = 7 * 86_400_000;

/// How long a task of a bulk load may write before it attaches its rows, in milliseconds. Ours: then the space
/// of an unfinished file of a dead task is free again.
pub const ATTACH_TIMEOUT_MS: u64 = 86_400_000;

/// Most bytes of rows that are attached to a partition at once. Ours: they are one entry of a journal, which must fit
/// in memory.
pub const ATTACHED_BYTES_MAX: usize = 1 << 30;

/// Characters of the name of a consumer. Ours: as long as other keys.
pub const CONSUMER_CHARS_MAX: usize = KEY_CHARS_MAX;
/// Messages of one reservation. Ours: bounds the memory of its locks, 24 bytes each, and of its record.
pub const RESERVATION_MESSAGES_MAX: usize = 1_000_000;
/// Reservations that a consumer may have at once. Ours: the batch at hand and the next one.
pub const RESERVATIONS_MAX: usize = 2;
/// Shortest time that a reservation holds, in milliseconds. Ours: as for the lock of a message.
pub const RESERVATION_LOCK_MS_MIN: u64 = LOCK_DURATION_MS_MIN;
/// Longest time that a reservation holds, in milliseconds. Ours: a batch may take longer than a message.
pub const RESERVATION_LOCK_MS_MAX: u64 = 86_400_000;
/// Largest number of a reservation. Ours: what a signed 64-bit column holds.
pub const RESERVATION_NUMBER_MAX: u64 = (1 << 63) - 1;
/// Bytes of records that one read of a reservation returns, unless one message has more. Bounds the memory of a call.
pub const RESERVATION_READ_BYTES_MAX: usize = 64 << 20;
/// Milliseconds after which a stage that no commit has named is removed. Ours: a query that is down for a day restarts
/// its batch with other stages.
pub const STAGE_RETENTION_MS: u64 = 86_400_000;
/// Bytes of all stages of a namespace together. Ours: a job that never commits must not fill the disk of the queues.
pub const STAGED_BYTES_MAX: u64 = 64 << 30;
/// Characters of the id of a stage, of a sink and of a query. Ours: room for some UUIDs, as entity paths have it.
pub const STAGE_ID_CHARS_MAX: usize = 260;
/// How long the last commit of a sink is remembered, in milliseconds. Ours: a job with an older checkpoint is another
/// job.
pub const SINK_RETENTION_MS: u64 = 7 * 86_400_000;
/// Bytes of rows of one partition that are written to a stage together, and read back together. Ours.
pub const STAGE_RUN_BYTES: usize = 256 << 10;

/// Threads on which a commit reads stages and publishes their rows, partition by partition. Ours: they wait for a disk
/// more than for a core.
pub const PUBLISHING_THREADS: usize = 4;
/// Threads on which an open takes over rows of bulk loads, partition by partition. Ours: they wait for a disk more than
/// for a core.
pub const TAKE_OVER_THREADS: usize = 4;

/// Duplicate-detection window of a queue by default, in milliseconds (B-223).
pub const DUPLICATE_WINDOW_MS_DEFAULT: u64 = 600_000;
/// Shortest duplicate-detection window, in milliseconds, without a tier (the service starts at 20 s, B-027).
pub const DUPLICATE_WINDOW_MS_MIN: u64 = 1_000;
/// Longest duplicate-detection window, in milliseconds, without a tier (the service ends at 7 days, B-027).
pub const DUPLICATE_WINDOW_MS_MAX: u64 = 30 * 86_400_000;

/// Shortest default time to live of an entity, in milliseconds (B-026).
pub const TIME_TO_LIVE_MS_MIN: u64 = 1_000;
/// "Never": the largest .NET time span, in milliseconds, rounded down (B-022).
pub const DURATION_MS_NEVER: u64 = 922_337_203_685_477;

/// `max_size_in_megabytes` of a queue by default (B-022). Without a tier, only a requested size is enforced.
pub const MAX_SIZE_MEGABYTES_DEFAULT: u64 = 1_024;
/// Largest `max_size_in_megabytes`, so that bytes fit 48 bits.
pub const MAX_SIZE_MEGABYTES_MAX: u64 = 1 << 26;
/// Largest `max_message_size_in_kilobytes` (B-054).
pub const MESSAGE_SIZE_KILOBYTES_MAX: u64 = (MESSAGE_SIZE_BYTES_MAX as u64) >> 10;

/// Calls that may wait for the store of one partition at once; further sends there are asked to pause (B-100).
pub const OPERATIONS_IN_FLIGHT_MAX: u32 = 256;
/// Milliseconds for which a send without a key waits for one partition before it uses another, and after which an
/// unresponsive store counts as out of service: three in turn stay within the 15 s of B-091.
pub const STORE_ANSWER_MS_MAX: u64 = 5_000;
/// Milliseconds after which an unresponsive store counts as stalled: callers stop waiting in it and can time out.
pub const STORE_STALLED_MS: u64 = 1_000;
/// Milliseconds after which a call without a timeout leaves an unresponsive store (B-091 recommends 60 s).
pub const CALL_MS_DEFAULT: u64 = 60_000;

/// Seconds a namespace waits for a receive that is under way when it closes.
pub const CLOSE_WAIT_SECONDS_MAX: u64 = 5;

/// Milliseconds after which written data is synced, plus the time of one round (docs/guarantees.md).
pub const OS_SYNC_INTERVAL_MS: u64 = 100;
/// Bytes that the journal of a partition may have, unless its messages have more (docs/architecture.md, "Durable
/// shards").
pub const JOURNAL_BYTES_MAX: u64 = 4 << 20;
/// Milliseconds after which a shard with a changed journal writes a snapshot.
pub const SNAPSHOT_INTERVAL_MS: u64 = 60_000;
/// Sequence numbers by which the high-water mark rises at once, so that none is assigned twice after a power loss. An
/// unclean end leaves a gap of at most this size per entity and partition.
pub const RESERVED_NUMBERS: u64 = 16_384;
/// Sequence numbers below the mark when it rises again: sends that arrive before the new mark is synced, about a tenth
/// of a second later, do not wait.
pub const RESERVED_NUMBERS_LOW: u64 = RESERVED_NUMBERS / 4 * 3;

/// Characters of the text of a SQL filter (B-043).
pub const FILTER_TEXT_CHARS_MAX: usize = 1_024;
/// Characters of the text of an action (B-043).
pub const ACTION_TEXT_CHARS_MAX: usize = 1_024;
/// SET and REMOVE expressions of one action (B-043).
pub const ACTION_EXPRESSIONS_MAX: usize = 32;
/// Characters of a rule's name (B-016).
pub const RULE_NAME_CHARS_MAX: usize = 50;
/// Bytes of a text that an expression computes: a longer one cannot be a property (B-048).
pub const EXPRESSION_TEXT_BYTES_MAX: usize = 64 << 10;
/// Characters of a LIKE pattern that comes from a property or a parameter; those in a filter are bounded by its text.
pub const LIKE_PATTERN_CHARS_MAX: usize = 1_024;
/// Levels of parentheses, signs and NOT in an expression. Bounds the stack of a parse and of an evaluation.
pub const EXPRESSION_DEPTH_MAX: usize = 64;

/// Bytes of the rows of one send of a bulk client: they are in memory until all are checked. Ours.
pub const BULK_SEND_BYTES_MAX: usize = 256 << 20;
/// Bytes of the rows of all sends of bulk clients that a server has in memory at once; a send beyond it is asked to
/// pause. Ours.
pub const BULK_SENDS_BYTES_MAX: usize = 1 << 30;
/// Bytes of a JSON body of a bulk client: the lock tokens of more messages than one receive brings. Ours.
pub const BULK_CONTROL_BYTES_MAX: usize = 64 << 20;
/// Bytes of messages in one piece of a stream: what a server and its bulk clients hold of a stream at a time. Ours.
pub const BULK_CHUNK_BYTES: usize = 1 << 20;
/// Largest page of a browse of a bulk client, in bytes: it is in memory as a whole. Ours.
pub const BULK_PAGE_BYTES_MAX: usize = 64 << 20;
/// Requests of bulk clients that a server works on at once, those that wait for messages included; further ones are
/// asked to pause. Ours.
pub const BULK_REQUESTS_MAX: usize = 512;
/// Milliseconds between two pieces of a request's body: a job that makes the rows may work on them that long. Ours.
pub const BULK_BODY_IDLE_MS_MAX: u64 = 300_000;
/// Milliseconds for which a server reads on after it refused the rows, so that the sender gets to read why. Ours.
pub const BULK_DRAIN_MS_MAX: u64 = 30_000;
/// Longest wait of a receive of a bulk client, in milliseconds. Ours.
pub const BULK_WAIT_MS_MAX: u64 = 3_600_000;
/// Milliseconds for which the token of a client is valid. Ours.
pub const BULK_TOKEN_MS: u64 = 300_000;
/// Idle connections that a client keeps. Ours.
pub const BULK_IDLE_CONNECTIONS_MAX: usize = 16;

/// Levels of lists, maps, arrays and descriptors in one AMQP value. Bounds the stack of a decode. Ours: clients write
/// up to six.
pub const AMQP_NESTING_MAX: u32 = 32;
/// Values in one AMQP value that is decoded, those within lists and maps included. Bounds its memory to 40 bytes each.
/// Ours.
pub const AMQP_VALUES_MAX: u32 = 65_536;
/// Bytes of a delivery tag (AMQP 1.0, part 2, 2.8.7).
pub const AMQP_TAG_BYTES_MAX: usize = 32;
/// Smallest largest frame that a peer may ask for, in bytes (AMQP 1.0, part 2, 2.8.14).
pub const AMQP_FRAME_BYTES_MIN: u32 = 512;
/// Bytes of a frame that a server takes: as the service announces it.
pub const AMQP_FRAME_BYTES_MAX: u32 = 65_536;
/// Largest channel number: one less than the sessions of a connection. Ours.
pub const AMQP_CHANNEL_MAX: u16 = 1_999;
/// Largest handle: one less than the links of a session. Ours.
pub const AMQP_HANDLE_MAX: u32 = 1_023;
/// Links of a connection. Ours.
pub const AMQP_LINKS_MAX: usize = 4_096;
/// Transfer frames that a session may send before the server reports that it has read some. Ours.
pub const AMQP_WINDOW_FRAMES: u32 = 5_000;
/// Idle time-out that a server announces, in milliseconds, as the service does: a connection from which nothing came
/// for twice as long is closed (AMQP 1.0, part 2, 2.4.5: announce half of it).
pub const AMQP_IDLE_MS: u32 = 240_000;
/// Shortest idle time-out of a client, in milliseconds. Ours: a shorter one would have a server send nothing but empty
/// frames.
pub const AMQP_IDLE_MS_MIN: u32 = 100;
/// Milliseconds from the first byte of a connection, or its lack, to its `open` (B-409: 20 s).
pub const AMQP_HANDSHAKE_MS_MAX: u64 = 20_000;
/// Milliseconds that a server waits for the answer to its `close`. Ours.
pub const AMQP_CLOSE_MS_MAX: u64 = 5_000;
/// Bytes that wait for a client to read them, beyond which the server takes no further frame of it. Ours.
pub const AMQP_OUTPUT_BYTES_MAX: usize = 4 << 20;
/// Unanswered deliveries of a connection, beyond which the server takes no further frame. Ours: more than the 10,000
/// credits that clients give themselves.
pub const AMQP_UNANSWERED_MAX: u32 = 16_384;
/// Deliveries to a session that its client has not settled. Ours: more than a client may prefetch.
pub const AMQP_UNSETTLED_MAX: u32 = 65_536;
/// Bytes of unfinished deliveries of a connection: two of the largest. Ours.
pub const AMQP_PARTIAL_BYTES_MAX: usize = 2 * MESSAGE_SIZE_BYTES_MAX;
/// Bytes of deliveries on links of a connection whose attach is still unanswered. Ours.
pub const AMQP_EARLY_BYTES_MAX: usize = 4 << 20;
/// Deliveries of detached links that a session remembers, so that a late settlement of one is not an error. Ours.
pub const AMQP_FORGOTTEN_MAX: usize = 4_096;
/// Transactions of a connection that are declared and not discharged. Ours.
pub const AMQP_TRANSACTIONS_MAX: usize = 256;
/// Messages that one request of `$management` removes (B-403).
pub const AMQP_BATCH_DELETE_MAX: usize = 4_000;

/// Messages that a client may send on a link before the first is answered; answers renew the credit (B-421). Clients in
/// use give themselves 10,000.
pub const AMQP_LINK_CREDIT: u32 = 1_000;
/// Requests that a client may send on a link before the first is processed. Ours.
pub const AMQP_REQUEST_CREDIT: u32 = 100;
/// Bytes of messages of a connection that wait to be stored, and of requests that wait to be answered, beyond which the
/// server takes no further frame of it. Ours: as much as the unfinished deliveries of a connection may have.
pub const AMQP_QUEUED_BYTES_MAX: usize = AMQP_PARTIAL_BYTES_MAX;
/// Bytes of a connection's input buffer while it is quiet. Ours: some frames without a message.
pub const AMQP_READ_BYTES_MIN: usize = 4 << 10;
/// Bytes that a busy connection reads at a time. Ours: the largest frame.
pub const AMQP_READ_BYTES: usize = AMQP_FRAME_BYTES_MAX as usize;
/// Calls of the broker that one connection has on threads at a time; further ones wait. Ours: a quarter of the threads.
pub const AMQP_JOBS_MAX: usize = SERVER_BLOCKING_THREADS_MAX / 4;
/// Calls of one connection that wait for a thread, beyond which the server takes no further frame of it. Ours: one call
/// for each link that it may have.
pub const AMQP_JOBS_WAITING_MAX: usize = AMQP_LINKS_MAX;
/// Messages that a link takes from its entity at a time. Ours: then other links of the connection get their turn.
pub const AMQP_TAKE_MESSAGES: usize = 128;
/// Scopes for which a connection may have tokens. Ours: one for each of the links it may use at once.
pub const AMQP_CLAIMS_MAX: usize = 1_024;
/// Answers of a link that wait for credit; further ones are dropped, as the client reads none. Ours.
pub const AMQP_REPLIES_MAX: usize = 256;
/// Milliseconds until a token must have been put to `$cbs` (B-409).
pub const AMQP_TOKEN_MS_MAX: u64 = 20_000;
/// Milliseconds until the first link of a connection (B-410).
pub const AMQP_FIRST_LINK_MS_MAX: u64 = 60_000;
/// Milliseconds after the last link of a connection (B-410).
pub const AMQP_WITHOUT_LINK_MS_MAX: u64 = 300_000;
/// Milliseconds without use after which a link is detached (B-411).
pub const AMQP_LINK_IDLE_MS_MAX: u64 = 600_000;
/// Milliseconds that a client waits for the next session when it names no time (B-196).
pub const AMQP_ACCEPT_MS_DEFAULT: u64 = 65_000;
/// Longest wait for the next session, in milliseconds. Ours.
pub const AMQP_ACCEPT_MS_MAX: u64 = 3_600_000;
/// Milliseconds between the end of a session's lock and the end of its link. The service takes some seconds (B-201).
pub const AMQP_SESSION_LOST_MS: u64 = 4_000;

/// Authorization rules of a namespace, and of an entity (B-046).
pub const AUTHORIZATION_RULES_MAX: usize = 12;
/// Characters of the name of an authorization rule. Azure's own limit of such names.
pub const ACCESS_KEY_NAME_CHARS_MAX: usize = 256;
/// Shortest key of an authorization rule, in bytes: the development key of the emulator is no shorter. Ours.
pub const ACCESS_KEY_BYTES_MIN: usize = 13;
/// Longest key of an authorization rule, in bytes. Azure's own limit.
pub const ACCESS_KEY_BYTES_MAX: usize = 256;
/// Bytes of a shared access signature. Ours: several times what the longest entity path and key name need.
pub const SAS_TOKEN_BYTES_MAX: usize = 8 << 10;

/// Connections to a server at once, of all protocols; further ones wait to be accepted (B-044).
pub const SERVER_CONNECTIONS_MAX: usize = 5_000;
/// Threads of a server that may wait for a store. Ours.
pub const SERVER_BLOCKING_THREADS_MAX: usize = 64;
/// Milliseconds for the first bytes of a connection, and for a TLS handshake: a connection that is half open ends.
/// Ours.
pub const SERVER_FIRST_BYTES_MS_MAX: u64 = 10_000;
/// Milliseconds that a server waits for connections when it closes. Ours.
pub const SERVER_CLOSE_MS_MAX: u64 = 30_000;
/// Bytes of a WebSocket message, and of what a WebSocket may have in its buffers each way. Ours: the largest AMQP
/// frame.
pub const WEBSOCKET_BYTES_MAX: usize = 1 << 20;

/// Bytes of the line and the headers of an HTTP request, and of a body that are read at a time. Ours: more than 64 KiB
/// of user properties (B-048) and as much beside them; rows of bulk clients come in fewer reads.
pub const HTTP_HEAD_BYTES_MAX: usize = 256 << 10;
/// Headers of an HTTP request, each user property included. Ours.
pub const HTTP_HEADERS_MAX: usize = 256;
/// Milliseconds for the line and the headers of an HTTP request, counted from the end of the one before: a slow request
/// ends, and so does an unused connection. Ours.
pub const HTTP_HEAD_MS_MAX: u64 = 60_000;
/// Milliseconds between two pieces of the body of an HTTP request. Ours.
pub const HTTP_BODY_IDLE_MS_MAX: u64 = 30_000;
/// Bytes that are read on of a body that was refused, so that the client reads why and the connection goes on. Ours.
pub const HTTP_DRAIN_BYTES_MAX: usize = 2 << 20;
/// Milliseconds for which they are read. Ours.
pub const HTTP_DRAIN_MS_MAX: u64 = 5_000;
/// Bytes that the bodies of unfinished HTTP requests take together. Ours.
pub const HTTP_BODIES_BYTES_MAX: usize = 512 << 20;
/// HTTP requests that a server works on at once, those that wait for messages included (B-045: with the 5,001st the
/// service is busy, too).
pub const HTTP_REQUESTS_MAX: usize = 5_000;
/// Bytes of a message, and of a batch, over HTTP on Premium (B-454).
pub const HTTP_MESSAGE_BYTES_MAX_PREMIUM: usize = 1 << 20;
/// Seconds that a receive over HTTP waits when it names no `timeout` (the service's own default).
pub const HTTP_WAIT_SECONDS_DEFAULT: u64 = 60;
/// Longest wait of a receive over HTTP, in seconds. Ours.
pub const HTTP_WAIT_SECONDS_MAX: u64 = 3_600;
/// Entities that one HTTP connection may have caches of. Ours: a connection that receives from more drops the oldest.
pub const HTTP_RECEIVERS_MAX: usize = 64;

/// Bytes of a description of an entity in XML. Ours: the longest rule and all authorization rules fit several times.
pub const ATOM_BODY_BYTES_MAX: usize = 256 << 10;
/// Levels of elements in a description. Ours: a rule has ten.
pub const ATOM_DEPTH_MAX: usize = 32;
/// Elements of a description. Ours: a rule with hundreds of parameters fits.
pub const ATOM_ELEMENTS_MAX: usize = 4_096;
/// Entities in a page of a list (B-457).
pub const ATOM_PAGE_MAX: usize = 100;

/// Lines of the log about one subject that are written in one time window; the others are counted. Ours.
pub const LOG_LINES_MAX: u32 = 5;
/// The time window of [`LOG_LINES_MAX`] in milliseconds, from the first line about a subject. Ours.
pub const LOG_WINDOW_MS: u64 = 10_000;
/// Subjects of one event that are counted separately at a time. Further ones share a count, so that clients with
/// invented names fill neither memory nor log. Ours.
pub const LOG_SUBJECTS_MAX: usize = 64;
/// Lines of the log that wait to be written. Ours.
pub const LOG_LINES_WAITING_MAX: usize = 256;
/// Characters of a value in a line of the log: names that clients invent have no bound. Ours.
pub const LOG_VALUE_CHARS_MAX: usize = 512;
