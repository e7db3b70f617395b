"""Every setting of the library, once: key, kind, bounds, default and meaning.

Those of stores and their credentials are in `store_settings`. `ALL` and `FAMILIES` hold all of them, in the order of
the two files.
"""

from __future__ import annotations

from indextables.config import store_settings
from indextables.config.setting import (
    Family,
    Setting,
    choice,
    duration,
    ratio,
    size,
    switch,
    whole,
)
from indextables.config.values import Choice, Int, Maybe, Names, Text

# Transactions

TRANSACTION_RETRY_MAX_ATTEMPTS = whole(
    "transaction.retry.maxAttempts", "How often a commit is tried before it gives up to other writers.", default=10
)
TRANSACTION_RETRY_BASE_DELAY_MS = duration(
    "transaction.retry.baseDelayMs",
    "Pause before the second try of a commit; it doubles each time.",
    default=100,
    unit="ms",
)
TRANSACTION_RETRY_MAX_DELAY_MS = duration(
    "transaction.retry.maxDelayMs", "Longest pause between two tries of a commit.", default=5000, unit="ms"
)
TRANSACTION_COMPRESSION_ENABLED = switch(
    "transaction.compression.enabled", "Write version files with gzip; both forms are always read.", default=True
)
TRANSACTION_CACHE_ENABLED = switch(
    "transaction.cache.enabled", "Keep what was read from the log in memory.", default=True
)
TRANSACTION_CACHE_EXPIRATION_SECONDS = duration(
    "transaction.cache.expirationSeconds",
    "How long unused log entries stay in memory; what a read returns never depends on it.",
    default=300,
    unit="seconds",
)
TRANSACTION_USE_OPTIMIZED = switch(
    "transaction.useOptimized", "Read the log in parallel and through caches; `false` reads it plainly.", default=True
)

# Checkpoints

CHECKPOINT_ENABLED = switch("checkpoint.enabled", "Write checkpoints automatically.", default=True)
CHECKPOINT_INTERVAL = whole("checkpoint.interval", "Commits from one automatic checkpoint to the next.", default=10)
CHECKPOINT_PARALLELISM = whole("checkpoint.parallelism", "Version files read or written at once.", default=4)
CHECKPOINT_READ_TIMEOUT_SECONDS = duration(
    "checkpoint.read.timeoutSeconds", "Longest wait for a parallel read of the log.", default=30, unit="seconds", low=1
)
CHECKPOINT_RETENTION = whole(
    "checkpoint.retention", "Versions before a checkpoint that clean-up leaves in place.", default=30
)
CHECKPOINT_COMPRESSION = choice(
    "checkpoint.compression",
    "Codec of Parquet checkpoints.",
    default="snappy",
    others=("zstd", "gzip", "lz4", "brotli", "none"),
)
CHECKPOINT_MAX_FILE_SIZE = size(
    "checkpoint.maxFileSize", "A JSON checkpoint larger than this is written in parts.", default="128M"
)
CHECKPOINT_RETENTION_DURATION = duration(
    "checkpointRetention.duration", "How long superseded checkpoints stay.", default=7_200_000, unit="ms"
)
LOG_RETENTION_DURATION = duration(
    "logRetention.duration",
    "How long version files stay; of all keys about this that are set, the longest wins.",
    default=2_592_000_000,
    unit="ms",
)
CLEANUP_ENABLED = switch("cleanup.enabled", "Clean up old log files after a checkpoint.", default=True)
CLEANUP_FAILURE_POLICY = choice(
    "cleanup.failurePolicy",
    "Whether a file that cannot be deleted is passed over or ends the clean-up with an error.",
    default="continue",
    others=("fail",),
)
CLEANUP_DRY_RUN = switch("cleanup.dryRun", "Report what clean-up would delete, and delete nothing.", default=False)

# State

STATE_FORMAT = choice(
    "state.format", "Format in which checkpoints are written.", default="avro", others=("json", "parquet")
)
STATE_COMPRESSION = choice("state.compression", "Codec of Avro manifests.", default="zstd", others=("snappy", "none"))
STATE_COMPRESSION_LEVEL = whole("state.compressionLevel", "Level of zstd compression.", default=3, high=22)
STATE_ENTRIES_PER_MANIFEST = whole("state.entriesPerManifest", "Most file entries in one manifest.", default=50_000)
STATE_READ_PARALLELISM = whole("state.read.parallelism", "Manifests read at once.", default=8)
STATE_SCHEMA_RENORMALIZE_THRESHOLD = whole(
    "state.schema.renormalizeThreshold",
    "Different references to doc mappings above which they are merged anew.",
    default=5,
)
STATE_COMPACTION_TOMBSTONE_THRESHOLD = ratio(
    "state.compaction.tombstoneThreshold", "Share of removed entries above which a state is compacted.", default=0.10
)
STATE_COMPACTION_MAX_MANIFESTS = whole(
    "state.compaction.maxManifests",
    "Manifests, beyond those a compacted state needs, above which a state is compacted.",
    default=20,
)
STATE_COMPACTION_LARGE_REMOVE_THRESHOLD = Setting[int | None](
    "state.compaction.largeRemoveThreshold",
    Maybe(Int(low=1), "none"),
    None,
    "Files removed by one commit above which the state is compacted.",
)
STATE_COMPACTION_AFTER_MERGE = switch(
    "state.compaction.afterMerge", "Compact the state after splits were merged.", default=True
)
STATE_RETENTION_VERSIONS = whole("state.retention.versions", "Old states that are kept whatever their age.", default=2)
STATE_RETENTION_HOURS = duration("state.retention.hours", "How long old states stay.", default=168, unit="hours")
STATE_GC_MIN_MANIFEST_AGE_HOURS = duration(
    "state.gc.minManifestAgeHours", "Younger manifests are never collected as garbage.", default=1, unit="hours", low=1
)
STATE_RETRY_MAX_ATTEMPTS = whole(
    "state.retry.maxAttempts", "How often the commit of a compacted state is tried.", default=10
)
STATE_RETRY_BASE_DELAY_MS = duration(
    "state.retry.baseDelayMs", "Pause before its second try; it doubles each time.", default=100, unit="ms"
)
STATE_RETRY_MAX_DELAY_MS = duration(
    "state.retry.maxDelayMs", "Longest pause between two of its tries.", default=5000, unit="ms"
)

# Statistics

STATS_TRUNCATION_ENABLED = switch("stats.truncation.enabled", "Shorten long text in column statistics.", default=True)
STATS_TRUNCATION_MAX_LENGTH = whole(
    "stats.truncation.maxLength", "Characters of a text that statistics keep.", default=32
)
DATA_SKIPPING_NUM_INDEXED_COLS = whole(
    "dataSkippingNumIndexedCols", "First columns that get statistics; -1 means all, 0 none.", default=32, low=-1
)
DATA_SKIPPING_STATS_COLUMNS = Setting[tuple[str, ...] | None](
    "dataSkippingStatsColumns",
    Maybe(Names(), "all"),
    None,
    "Columns that get statistics, by name; `all` leaves it to `dataSkippingNumIndexedCols`.",
)

# Purge

PURGE_DEFAULT_RETENTION_HOURS = duration(
    "purge.defaultRetentionHours", "Age below which an orphaned file is left alone.", default=168, unit="hours"
)
PURGE_MIN_RETENTION_HOURS = duration(
    "purge.minRetentionHours", "Shortest retention that PURGE accepts.", default=24, unit="hours"
)
PURGE_RETENTION_CHECK_ENABLED = switch(
    "purge.retentionCheckEnabled", "Refuse a retention below the shortest one.", default=True
)
PURGE_TX_LOG_RETENTION_HOURS = duration(
    "purge.txLogRetentionHours",
    "How long version files stay; of all keys about this that are set, the longest wins.",
    default=720,
    unit="hours",
)
PURGE_MAX_FILES_TO_DELETE = whole("purge.maxFilesToDelete", "Most files that one PURGE deletes.", default=1_000_000)
PURGE_DELETE_RETRIES = whole("purge.deleteRetries", "Further tries to delete a file.", default=3, low=0)
PURGE_PARALLELISM = Setting[int | None](
    "purge.parallelism", Maybe(Int(low=1), "auto"), None, "Deletions at once; `auto` suits the host or cluster."
)
PURGE_ON_WRITE_ENABLED = switch("purgeOnWrite.enabled", "Purge after writes, without being asked.", default=False)
PURGE_ON_WRITE_TRIGGER_AFTER_MERGE = switch(
    "purgeOnWrite.triggerAfterMerge", "Purge after every merge of splits.", default=True
)
PURGE_ON_WRITE_TRIGGER_AFTER_WRITES = whole(
    "purgeOnWrite.triggerAfterWrites", "Purge after this many writes; 0 means never by count.", default=0, low=0
)
PURGE_ON_WRITE_SPLIT_RETENTION_HOURS = duration(
    "purgeOnWrite.splitRetentionHours", "Age below which such a purge leaves a split alone.", default=168, unit="hours"
)
PURGE_ON_WRITE_TX_LOG_RETENTION_HOURS = duration(
    "purgeOnWrite.txLogRetentionHours", "How long version files stay before such a purge.", default=720, unit="hours"
)

# Merge

MERGE_TARGET_SIZE = size("merge.targetSize", "Size up to which splits are merged.", default="5G")
MERGE_MAX_SOURCE_SPLITS_PER_MERGE = whole(
    "merge.maxSourceSplitsPerMerge", "Most splits that become one.", default=1000, low=2
)
MERGE_SKIP_SPLIT_THRESHOLD = ratio(
    "merge.skipSplitThreshold", "A split that already has this share of the target size is not merged.", default=0.45
)
MERGE_BATCH_SIZE = Setting[int | None](
    "merge.batchSize",
    Maybe(Int(low=1), "none"),
    None,
    "New splits of a merge that are committed in one version; with `none` all of them are.",
)
MERGE_ON_WRITE_ENABLED = switch(
    "mergeOnWrite.enabled", "Merge splits after writes, without being asked.", default=False
)
MERGE_ON_WRITE_ASYNC_ENABLED = switch(
    "mergeOnWrite.async.enabled", "Merge in the background while the writer goes on.", default=True
)
MERGE_ON_WRITE_TARGET_SIZE = size("mergeOnWrite.targetSize", "Size up to which such a merge goes.", default="4G")
MERGE_ON_WRITE_MIN_BATCHES_TO_TRIGGER = whole(
    "mergeOnWrite.minBatchesToTrigger", "Batches of mergeable splits that start a merge.", default=1
)
MERGE_ON_WRITE_MAX_CONCURRENT_BATCHES = whole("mergeOnWrite.maxConcurrentBatches", "Batches merged at once.", default=3)
MERGE_ON_WRITE_SHUTDOWN_TIMEOUT_MS = duration(
    "mergeOnWrite.shutdownTimeoutMs", "Wait for background merges when the process ends.", default=300_000, unit="ms"
)

# Writing

# The bounds of the heap are those of a Tantivy writer.
INDEX_WRITER_HEAP_SIZE = size(
    "indexWriter.heapSize", "Memory of one index writer.", default="100M", low="15M", high="4095M"
)
INDEX_WRITER_TEMP_DIRECTORY_PATH = Setting[str | None](
    "indexWriter.tempDirectoryPath",
    Maybe(Text(), "auto"),
    None,
    "Local directory in which splits are built; `auto` is the system's temporary directory.",
    host_only=True,
)
WRITE_TARGET_SPLIT_SIZE = size("write.targetSplitSize", "Size at which a writer starts a new split.", default="1G")
WRITE_OPTIMIZE_WRITE_ENABLED = switch(
    "write.optimizeWrite.enabled", "Shuffle rows before a write so that splits get an even size.", default=False
)
WRITE_OPTIMIZE_WRITE_TARGET_SPLIT_SIZE = size(
    "write.optimizeWrite.targetSplitSize", "Size of split that such a shuffle aims at.", default="1G"
)

# Reading with Spark

READ_MAX_PARTITION_BYTES = size(
    "read.maxPartitionBytes", "Bytes of splits that one Spark task reads, unless one split is larger.", default="128M"
)
READ_MIN_PARTITIONS = Setting[int | None](
    "read.minPartitions",
    Maybe(Int(low=1), "auto"),
    None,
    "Spark tasks that a read aims at when its splits are small; `auto` is twice the cores of the driver's host.",
)

SEARCH_DRIVER_MAX_ROWS = whole(
    "search.driver.maxRows",
    "Rows up to which Spark's driver answers a search by itself; 0 leaves every search to tasks.",
    default=10_000,
    low=0,
)
SEARCH_DRIVER_MAX_SPLITS = whole("search.driver.maxSplits", "Splits that it asks at most for that.", default=64, low=0)
SEARCH_DRIVER_MAX_FETCH = size(
    "search.driver.maxFetch",
    "Bytes of indexes, and of rows, that it fetches at most for that.",
    default="256M",
    low="0",
)

# Cache on disk

CACHE_DISK_ENABLED = switch("cache.disk.enabled", "Keep the index parts of splits on local disk.", default=True)
CACHE_DISK_PATH = Setting[str | None](
    "cache.disk.path",
    Maybe(Text(), "auto"),
    None,
    "Directory of that cache; `auto` lies in the user's cache directory.",
    host_only=True,
)
CACHE_DISK_MAX_SIZE = size(
    "cache.disk.maxSize", "Bytes that the cache may take.", default="10G", low="0", host_only=True
)

# Indexing

INDEXING_TYPEMAP = Family(
    "indexing.typemap",
    Choice(("string", "text", "json", "ip")),
    "string",
    "How a text column is indexed: as one term, as words, as JSON, or as IP addresses.",
    short="indexing",
)
INDEXING_TOKENIZER = Family("indexing.tokenizer", Text(), "default", "Tokenizer that makes words of a text column.")
INDEXING_FASTFIELDS = Setting[tuple[str, ...] | None](
    "indexing.fastfields",
    Maybe(Names(), "auto"),
    None,
    "Columns kept column-wise for aggregation; `auto`: partition columns, and the numeric ones of the first 32.",
)
INDEXING_TEXT_INDEX_RECORD_OPTION = choice(
    "indexing.text.indexRecordOption",
    "What the index holds of a word in a text: that it is there, how often, or where (phrases need this).",
    default="position",
    others=("freq", "basic"),
)
INDEXING_TEXT_MAX_TOKEN_LENGTH = whole(
    "indexing.text.maxTokenLength", "Longest word, in bytes, that is indexed.", default=255, high=65_530
)
INDEXING_JSON_MODE = choice(
    "indexing.json.mode",
    "Whether JSON columns get everything that aggregations need or only what search needs.",
    default="full",
    others=("minimal",),
)

ALL: tuple[Setting[object], ...] = tuple(
    value for value in (*globals().values(), *vars(store_settings).values()) if isinstance(value, Setting)
)
FAMILIES: tuple[Family, ...] = tuple(value for value in globals().values() if isinstance(value, Family))
