// SPDX-License-Identifier: Apache-2.0
//! All limits, each with unit and source: a rule of docs/behaviour.md, or "Ours" for a choice of oxbus.
//!
//! A namespace without a tier has wider ranges than the service (docs/decisions/0007-no-tier-sizes.md).

/// Default number of partitions of a namespace. Service Bus Standard has 16 (B-004).
pub const PARTITIONS_DEFAULT: u16 = 16;
/// Maximum partitions of a namespace: the ready mask of an entity is one 64-bit word.
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
/// Longest delay of an abandoned message, in milliseconds. Ours: a year.
pub const ABANDON_DELAY_MS_MAX: u64 = 365 * 86_400_000;
/// Characters of a dead-letter reason and of its description (B-168).
pub const DEAD_LETTER_TEXT_CHARS_MAX: usize = 4_096;

/// Bytes of a message with its properties, and of a batch: the maximum of the service on any tier (B-054).
pub const MESSAGE_SIZE_BYTES_MAX: usize = 100 << 20;
/// Default size of a batch object, in bytes (B-054: "any batch 1 MB").
pub const BATCH_SIZE_BYTES_DEFAULT: usize = 1 << 20;
/// Bytes that a batch counts for each message in addition to its size: the section header on the wire.
pub const BATCH_MESSAGE_OVERHEAD_BYTES: usize = 8;

/// Messages that one transaction may send (B-050).
pub const TRANSACTION_MESSAGES_MAX: usize = 100;
/// Milliseconds from the first operation of a transaction to its commit (B-318).
pub const TRANSACTION_MS_MAX: u64 = 120_000;

/// Maximum number of forwards of a message (B-334).
pub const HOPS_MAX: u8 = 4;
/// Minimum idle time before an entity is deleted, in milliseconds (B-028).
pub const AUTO_DELETE_ON_IDLE_MS_MIN: u64 = 300_000;

/// Bytes of a message, and of a whole batch, on Basic and Standard (B-053).
pub const STANDARD_MESSAGE_SIZE_BYTES_MAX: usize = 256 << 10;
/// Default bytes of a message on Premium, and the maximum in a partitioned namespace (B-013, B-054).
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

/// Messages that a purge reads in one step. Bounds the memory of a call.
pub const PURGE_PAGE_MESSAGES: usize = 256;
/// Messages of one peek (B-051).
pub const PEEK_MESSAGES_MAX: usize = 250;
/// Sequence numbers of one receive-and-delete of deferred messages (B-280).
pub const DEFERRED_RECEIVE_MAX: usize = 250;
/// Messages that a receiver may prefetch: the SDK's limit.
pub const PREFETCH_COUNT_MAX: usize = 50_000;
/// Messages that a receive may request. Bounds the memory of a call.
pub const RECEIVE_MESSAGES_MAX: usize = 1 << 20;

/// Shortest lock without a tier, in milliseconds (the service: 5 s, B-025).
pub const LOCK_DURATION_MS_MIN: u64 = 500;
/// Longest lock without a tier, in milliseconds (the service: 5 min, B-025). Deadlines in a slot have 24 bits, so a
/// lock must be well below 2^23 ms.
pub const LOCK_DURATION_MS_MAX: u64 = 3_600_000;
/// Default lock duration of a queue, in milliseconds (B-022).
pub const LOCK_DURATION_MS_DEFAULT: u64 = 60_000;

/// Default maximum delivery count of a queue (B-022).
pub const MAX_DELIVERY_COUNT_DEFAULT: u32 = 10;
/// Largest maximum delivery count: the slot has 28 bits for the count.
pub const MAX_DELIVERY_COUNT_MAX: u32 = (1 << 28) - 1;

/// How long a partition remembers which bulk loads it has attached, in milliseconds. Ours: a later retry counts as
/// another job.
pub const ATTACHED_RETENTION_MS: u64 = 7 * 86_400_000;

/// How long a task of a bulk load may write before it attaches its rows, in milliseconds. Ours: after that, the
/// unfinished file of a dead task is deleted.
pub const ATTACH_TIMEOUT_MS: u64 = 86_400_000;

/// Bytes of rows that one call attaches to a partition. Ours: they form one journal entry, which must fit in memory.
pub const ATTACHED_BYTES_MAX: usize = 1 << 30;

/// Characters of the name of a consumer. Ours: the limit of other keys.
pub const CONSUMER_CHARS_MAX: usize = KEY_CHARS_MAX;
/// Messages of one reservation. Ours: bounds the memory of its locks, 24 bytes each, and of its record.
pub const RESERVATION_MESSAGES_MAX: usize = 1_000_000;
/// Open reservations of a consumer. Ours: the current batch and the next.
pub const RESERVATIONS_MAX: usize = 2;
/// Shortest lock of a reservation, in milliseconds. Ours: that of a message.
pub const RESERVATION_LOCK_MS_MIN: u64 = LOCK_DURATION_MS_MIN;
/// Longest lock of a reservation, in milliseconds. Ours: a batch may take longer than a message.
pub const RESERVATION_LOCK_MS_MAX: u64 = 86_400_000;
/// Largest number of a reservation. Ours: the maximum of a signed 64-bit column.
pub const RESERVATION_NUMBER_MAX: u64 = (1 << 63) - 1;
/// Bytes of records that one read of a reservation returns, unless a single message is larger. Bounds the memory of a
/// call.
pub const RESERVATION_READ_BYTES_MAX: usize = 64 << 20;
/// Milliseconds after which a stage that no commit named is removed. Ours: a query that was down for a day repeats its
/// batch with new stages.
pub const STAGE_RETENTION_MS: u64 = 86_400_000;
/// Bytes of all stages of a namespace. Ours: a job that never commits must not fill the disk.
pub const STAGED_BYTES_MAX: u64 = 64 << 30;
/// Characters of the id of a stage, a sink and a query. Ours: the limit of entity paths, enough for several UUIDs.
pub const STAGE_ID_CHARS_MAX: usize = 260;
/// How long a sink's last commit is remembered, in milliseconds. Ours: an older checkpoint counts as another job.
pub const SINK_RETENTION_MS: u64 = 7 * 86_400_000;
/// Bytes of rows of one partition that are written to a stage as one run. Ours: a run is also the unit of reads.
pub const STAGE_RUN_BYTES: usize = 256 << 10;

/// Threads that publish the rows of committed stages, each one partition at a time. Ours: they wait for disks more than
/// for cores.
pub const PUBLISHING_THREADS: usize = 4;
/// Threads that store rows of unfinished bulk loads at an open, each one partition at a time. Ours: for the same
/// reason.
pub const TAKE_OVER_THREADS: usize = 4;

/// Default duplicate-detection window of a queue, in milliseconds (B-223).
pub const DUPLICATE_WINDOW_MS_DEFAULT: u64 = 600_000;
/// Shortest duplicate-detection window without a tier, in milliseconds (the service: 20 s, B-027).
pub const DUPLICATE_WINDOW_MS_MIN: u64 = 1_000;
/// Longest duplicate-detection window without a tier, in milliseconds (the service: 7 days, B-027).
pub const DUPLICATE_WINDOW_MS_MAX: u64 = 30 * 86_400_000;

/// Shortest default time to live of an entity, in milliseconds (B-026).
pub const TIME_TO_LIVE_MS_MIN: u64 = 1_000;
/// "Never": the largest .NET timespan, in milliseconds, rounded down (B-022).
pub const DURATION_MS_NEVER: u64 = 922_337_203_685_477;

/// Default `max_size_in_megabytes` of a queue (B-022). Without a tier it is shown, but only an explicit size is
/// enforced.
pub const MAX_SIZE_MEGABYTES_DEFAULT: u64 = 1_024;
/// Largest `max_size_in_megabytes`: its bytes fit 48 bits.
pub const MAX_SIZE_MEGABYTES_MAX: u64 = 1 << 26;
/// Largest `max_message_size_in_kilobytes` (B-054).
pub const MESSAGE_SIZE_KILOBYTES_MAX: u64 = (MESSAGE_SIZE_BYTES_MAX as u64) >> 10;

/// Calls that wait for the store of one partition at once; further sends there fail with `ServerBusy` (B-100).
pub const OPERATIONS_IN_FLIGHT_MAX: u32 = 256;
/// Milliseconds after which a silent store counts as out of service, and a send without a key tries another partition.
/// Three attempts stay within the 15 s of B-091.
pub const STORE_ANSWER_MS_MAX: u64 = 5_000;
/// Milliseconds after which a silent store counts as stalled; from then on callers can time out.
pub const STORE_STALLED_MS: u64 = 1_000;
/// Milliseconds after which a call without a timeout gives up on a silent store (B-091 recommends 60 s).
pub const CALL_MS_DEFAULT: u64 = 60_000;

/// Seconds that a closing namespace waits for running receives.
pub const CLOSE_WAIT_SECONDS_MAX: u64 = 5;

/// Milliseconds until written data is synced, plus the duration of one round (docs/guarantees.md).
pub const OS_SYNC_INTERVAL_MS: u64 = 100;
/// Bytes of a partition's journal, unless its messages are larger (docs/architecture.md, "Durable shards").
pub const JOURNAL_BYTES_MAX: u64 = 4 << 20;
/// Milliseconds after which a shard with a changed journal writes a snapshot.
pub const SNAPSHOT_INTERVAL_MS: u64 = 60_000;
/// Sequence numbers that a high-water mark reserves, so that none is reused after a power loss. An unclean end leaves a
/// gap of at most this many numbers per entity and partition.
pub const RESERVED_NUMBERS: u64 = 16_384;
/// Remaining numbers at which the next high-water mark is written: sends need not wait for its sync, about a tenth of a
/// second.
pub const RESERVED_NUMBERS_LOW: u64 = RESERVED_NUMBERS / 4 * 3;

/// Characters of the text of a SQL filter (B-043).
pub const FILTER_TEXT_CHARS_MAX: usize = 1_024;
/// Characters of the text of an action (B-043).
pub const ACTION_TEXT_CHARS_MAX: usize = 1_024;
/// SET and REMOVE expressions of one action (B-043).
pub const ACTION_EXPRESSIONS_MAX: usize = 32;
/// Characters of a rule's name (B-016).
pub const RULE_NAME_CHARS_MAX: usize = 50;
/// Bytes of a text that an expression produces: the limit of a property (B-048).
pub const EXPRESSION_TEXT_BYTES_MAX: usize = 64 << 10;
/// Characters of a LIKE pattern from a property or a parameter; the limit of the text bounds literal patterns.
pub const LIKE_PATTERN_CHARS_MAX: usize = 1_024;
/// Levels of parentheses, signs and NOT in an expression. Bounds the stack of a parse and of an evaluation.
pub const EXPRESSION_DEPTH_MAX: usize = 64;

/// Bytes of the rows of one bulk send, which are in memory until all are checked. Ours.
pub const BULK_SEND_BYTES_MAX: usize = 256 << 20;
/// Bytes of the rows of all bulk sends in the memory of a server; further sends fail with `ServerBusy`. Ours.
pub const BULK_SENDS_BYTES_MAX: usize = 1 << 30;
/// Bytes of a JSON body of a bulk request: enough for the lock tokens of more messages than one receive returns. Ours.
pub const BULK_CONTROL_BYTES_MAX: usize = 64 << 20;
/// Bytes of messages in one chunk of a stream, the unit that servers and bulk clients buffer. Ours.
pub const BULK_CHUNK_BYTES: usize = 1 << 20;
/// Bytes of a page of a bulk browse, which is in memory as a whole. Ours.
pub const BULK_PAGE_BYTES_MAX: usize = 64 << 20;
/// Bulk requests that a server handles at once, including waiting receives; further ones fail with `ServerBusy`. Ours.
pub const BULK_REQUESTS_MAX: usize = 512;
/// Milliseconds between two chunks of a request's body, so that a job has time to produce the rows. Ours.
pub const BULK_BODY_IDLE_MS_MAX: u64 = 300_000;
/// Milliseconds for which a client may take nothing of a backup, whose files the server keeps meanwhile. Ours.
pub const BULK_BACKUP_IDLE_MS_MAX: u64 = 60_000;
/// Milliseconds for which a server reads the rest of rejected rows, so that the sender reads the error. Ours.
pub const BULK_DRAIN_MS_MAX: u64 = 30_000;
/// Longest wait of a bulk receive, in milliseconds. Ours.
pub const BULK_WAIT_MS_MAX: u64 = 3_600_000;
/// Lifetime of the token that a bulk client makes for a request, in milliseconds. Ours.
pub const BULK_TOKEN_MS: u64 = 300_000;
/// Idle connections that a bulk client keeps open. Ours.
pub const BULK_IDLE_CONNECTIONS_MAX: usize = 16;

/// Nested lists, maps, arrays and descriptors in an AMQP value. Bounds the stack of a decode. Ours: clients use up to
/// six.
pub const AMQP_NESTING_MAX: u32 = 32;
/// Values in a decoded AMQP value, including those in lists and maps. Bounds its memory, 40 bytes each. Ours.
pub const AMQP_VALUES_MAX: u32 = 65_536;
/// Bytes of a delivery tag (AMQP 1.0, part 2, 2.8.7).
pub const AMQP_TAG_BYTES_MAX: usize = 32;
/// Lower bound of a peer's maximum frame size, in bytes (AMQP 1.0, part 2, 2.8.14).
pub const AMQP_FRAME_BYTES_MIN: u32 = 512;
/// Bytes of a frame that a server accepts: the value of the service.
pub const AMQP_FRAME_BYTES_MAX: u32 = 65_536;
/// Largest channel number: the sessions of a connection less one. Ours.
pub const AMQP_CHANNEL_MAX: u16 = 1_999;
/// Largest handle: the links of a session less one. Ours.
pub const AMQP_HANDLE_MAX: u32 = 1_023;
/// Links of a connection. Ours.
pub const AMQP_LINKS_MAX: usize = 4_096;
/// Incoming window: transfer frames that a session may send before the server renews it. Ours.
pub const AMQP_WINDOW_FRAMES: u32 = 5_000;
/// Idle timeout that a server announces, in milliseconds: the value of the service. A connection that is silent for
/// twice as long is closed (AMQP 1.0, part 2, 2.4.5: announce half of it).
pub const AMQP_IDLE_MS: u32 = 240_000;
/// Idle timeout that a client announces, in milliseconds. A server that is silent for twice as long counts as lost.
/// Ours: as other clients.
pub const AMQP_CLIENT_IDLE_MS: u32 = 60_000;
/// Shortest idle timeout of a client, in milliseconds. Ours: a shorter one would force a flood of empty frames.
pub const AMQP_IDLE_MS_MIN: u32 = 100;
/// Milliseconds from accepting a connection to its `open` (B-409: 20 s).
pub const AMQP_HANDSHAKE_MS_MAX: u64 = 20_000;
/// Milliseconds that a server waits for the client's `close` after its own. Ours.
pub const AMQP_CLOSE_MS_MAX: u64 = 5_000;
/// Unread output of a connection, in bytes, at which the server stops reading frames. Ours.
pub const AMQP_OUTPUT_BYTES_MAX: usize = 4 << 20;
/// Deliveries of a connection without an outcome, at which the server stops reading frames. Ours: more than the 10,000
/// credits that clients assume.
pub const AMQP_UNANSWERED_MAX: u32 = 16_384;
/// Unsettled deliveries to a session. Ours: more than a client may prefetch.
pub const AMQP_UNSETTLED_MAX: u32 = 65_536;
/// Bytes of incomplete deliveries of a connection: two of the largest messages. Ours.
pub const AMQP_PARTIAL_BYTES_MAX: usize = 2 * MESSAGE_SIZE_BYTES_MAX;
/// Bytes of deliveries of a connection on links whose attach is pending. Ours.
pub const AMQP_EARLY_BYTES_MAX: usize = 4 << 20;
/// Deliveries of detached links that a session remembers, so that their late settlement is no error. Ours.
pub const AMQP_FORGOTTEN_MAX: usize = 4_096;
/// Open transactions of a connection. Ours.
pub const AMQP_TRANSACTIONS_MAX: usize = 256;
/// Messages that one `$management` request deletes (B-403).
pub const AMQP_BATCH_DELETE_MAX: usize = 4_000;

/// Credit of a sending link: messages without an outcome. Renewed as outcomes are sent (B-421). Clients assume 10,000.
pub const AMQP_LINK_CREDIT: u32 = 1_000;
/// Credit of a request link: requests that wait to be processed. Ours.
pub const AMQP_REQUEST_CREDIT: u32 = 100;
/// Bytes of queued messages and requests of a connection, at which the server stops reading frames. Ours: the limit of
/// its incomplete deliveries.
pub const AMQP_QUEUED_BYTES_MAX: usize = AMQP_PARTIAL_BYTES_MAX;
/// Read buffer of a quiet connection, in bytes. Ours: room for some frames without messages.
pub const AMQP_READ_BYTES_MIN: usize = 4 << 10;
/// Read buffer of a busy connection, in bytes. Ours: the largest frame.
pub const AMQP_READ_BYTES: usize = AMQP_FRAME_BYTES_MAX as usize;
/// Threads that the broker calls of one connection hold at once; further calls wait. Ours: a quarter of the threads.
pub const AMQP_JOBS_MAX: usize = SERVER_BLOCKING_THREADS_MAX / 4;
/// Broker calls of one connection that are suspended or wait for a thread, at which the server stops reading frames.
/// Ours: the limit of links, since each link has one call of a kind.
pub const AMQP_JOBS_WAITING_MAX: usize = AMQP_LINKS_MAX;
/// Messages that a link takes from its entity at a time. Ours: then the other links of the connection get their turn.
pub const AMQP_TAKE_MESSAGES: usize = 128;
/// Audiences for which a connection has tokens. Ours.
pub const AMQP_CLAIMS_MAX: usize = 1_024;
/// Replies of a link that wait for credit; further ones are dropped, since the client does not read them. Ours.
pub const AMQP_REPLIES_MAX: usize = 256;
/// Milliseconds from the start of a connection to its first `$cbs` token (B-409).
pub const AMQP_TOKEN_MS_MAX: u64 = 20_000;
/// Milliseconds from the start of a connection to its first link (B-410).
pub const AMQP_FIRST_LINK_MS_MAX: u64 = 60_000;
/// Milliseconds that a connection stays open after its last link (B-410).
pub const AMQP_WITHOUT_LINK_MS_MAX: u64 = 300_000;
/// Milliseconds after which an idle link is detached (B-411).
pub const AMQP_LINK_IDLE_MS_MAX: u64 = 600_000;
/// Default wait for the next available session, in milliseconds (B-196).
pub const AMQP_ACCEPT_MS_DEFAULT: u64 = 65_000;
/// Longest wait for the next available session, in milliseconds. Ours.
pub const AMQP_ACCEPT_MS_MAX: u64 = 3_600_000;
/// Milliseconds from the loss of a session's lock to the detach of its link. The service takes some seconds (B-201).
pub const AMQP_SESSION_LOST_MS: u64 = 4_000;

/// Authorization rules of a namespace, and of an entity (B-046).
pub const AUTHORIZATION_RULES_MAX: usize = 12;
/// Characters of the name of an authorization rule: Azure's limit.
pub const ACCESS_KEY_NAME_CHARS_MAX: usize = 256;
/// Shortest key of an authorization rule, in bytes: the length of the emulator's development key. Ours.
pub const ACCESS_KEY_BYTES_MIN: usize = 13;
/// Longest key of an authorization rule, in bytes: Azure's limit.
pub const ACCESS_KEY_BYTES_MAX: usize = 256;
/// Bytes of a shared access signature. Ours: several times what the longest entity path and key name need.
pub const SAS_TOKEN_BYTES_MAX: usize = 8 << 10;

/// Connections to a server, of all protocols; further ones wait to be accepted (B-044).
pub const SERVER_CONNECTIONS_MAX: usize = 5_000;
/// Threads of a server for calls that block on the store. Ours.
pub const SERVER_BLOCKING_THREADS_MAX: usize = 64;
/// Threads that changes of entities and stages over HTTP hold at once; further changes wait. Ours: a quarter of the
/// threads.
pub const SERVER_CHANGES_MAX: usize = SERVER_BLOCKING_THREADS_MAX / 4;
/// Milliseconds for the first bytes of a connection, and for its TLS handshake. Ours.
pub const SERVER_FIRST_BYTES_MS_MAX: u64 = 10_000;
/// Milliseconds that a closing server waits for its connections. Ours.
pub const SERVER_CLOSE_MS_MAX: u64 = 30_000;
/// Bytes of a WebSocket message; a WebSocket buffers twice as much output. Ours.
pub const WEBSOCKET_BYTES_MAX: usize = 1 << 20;

/// Bytes of the request line and headers of an HTTP request, and of a read of its body. Ours: room for 64 KiB of user
/// properties (B-048) and as much beside them; large reads suit bulk rows.
pub const HTTP_HEAD_BYTES_MAX: usize = 256 << 10;
/// Headers of an HTTP request, including one per user property. Ours.
pub const HTTP_HEADERS_MAX: usize = 256;
/// Milliseconds for the request line and headers, from the end of the previous request: ends slow requests and idle
/// connections. Ours.
pub const HTTP_HEAD_MS_MAX: u64 = 60_000;
/// Milliseconds between two chunks of the body of an HTTP request. Ours.
pub const HTTP_BODY_IDLE_MS_MAX: u64 = 30_000;
/// Bytes of a rejected body that the server still reads, so that the client reads the error and the connection stays
/// usable. Ours.
pub const HTTP_DRAIN_BYTES_MAX: usize = 2 << 20;
/// Milliseconds for which the server reads them. Ours.
pub const HTTP_DRAIN_MS_MAX: u64 = 5_000;
/// Bytes of the bodies of all unfinished HTTP requests. Ours.
pub const HTTP_BODIES_BYTES_MAX: usize = 512 << 20;
/// HTTP requests that a server handles at once, including waiting receives (B-045: the service rejects the 5,001st,
/// too).
pub const HTTP_REQUESTS_MAX: usize = 5_000;
/// Bytes of a message, and of a batch, over HTTP on Premium (B-454).
pub const HTTP_MESSAGE_BYTES_MAX_PREMIUM: usize = 1 << 20;
/// Default `timeout` of a receive over HTTP, in seconds: that of the service.
pub const HTTP_WAIT_SECONDS_DEFAULT: u64 = 60;
/// Longest wait of a receive over HTTP, in seconds. Ours.
pub const HTTP_WAIT_SECONDS_MAX: u64 = 3_600;
/// Receivers that an HTTP connection keeps, one per entity. Ours: a further one replaces the
/// least recently used.
pub const HTTP_RECEIVERS_MAX: usize = 64;

/// Bytes of an entity description in XML. Ours: several times the longest rule or all authorization rules.
pub const ATOM_BODY_BYTES_MAX: usize = 256 << 10;
/// Nested elements of an entity description. Ours: a rule has ten.
pub const ATOM_DEPTH_MAX: usize = 32;
/// Elements of an entity description. Ours: enough for a rule with hundreds of parameters.
pub const ATOM_ELEMENTS_MAX: usize = 4_096;
/// Entities in a page of a list (B-457).
pub const ATOM_PAGE_MAX: usize = 100;

/// Log lines about one subject that are written in one time window; the others are counted. Ours.
pub const LOG_LINES_MAX: u32 = 5;
/// The time window in milliseconds, from the first line about a subject. Ours.
pub const LOG_WINDOW_MS: u64 = 10_000;
/// Subjects of one log event that are counted separately. Further ones share a count, so that invented names fill
/// neither memory nor log. Ours.
pub const LOG_SUBJECTS_MAX: usize = 64;
/// Log lines that wait to be written. Ours.
pub const LOG_LINES_WAITING_MAX: usize = 256;
/// Characters of a value in a log line, since names from clients may have any length. Ours.
pub const LOG_VALUE_CHARS_MAX: usize = 512;

/// Records of spans that a server keeps until its program takes them; the oldest are dropped. Own limit.
pub const SPANS_WAITING_MAX: usize = 8192;
/// Contexts of messages in one span. Source: the default limit of links in the OpenTelemetry SDK specification.
pub const SPAN_CONTEXTS_MAX: usize = 128;
/// Bytes of a context that a span keeps; one of version 00 has 55, and later versions may add to it. Own limit.
pub const SPAN_CONTEXT_BYTES_MAX: usize = 128;
/// Bytes of the path of an HTTP request that a span keeps. Own limit.
pub const SPAN_PATH_BYTES_MAX: usize = 256;
/// Entities that metrics show by name; the least used ones beyond it are summed. Own limit, so that a scrape of a large
/// namespace stays small.
pub const METRIC_ENTITIES_MAX: usize = 1000;
